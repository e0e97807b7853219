// Sizes of buckets by MXNet's two rules, and when the pool goes back to the device.
#include "alloc/mxnet_pool.h"

#include <bit>

namespace ebbtide::alloc {
namespace {

Bytes RoundUp(Bytes bytes, Bytes quantum) { return (bytes + quantum - 1) / quantum * quantum; }

}  // namespace

Bytes MxnetPoolAllocator::Rounded(Bytes bytes) const {
  if (options_.type == MxnetPoolOptions::Type::kRound) {
    if (bytes > options_.cutoff) return RoundUp(bytes, options_.cutoff);
    return std::max(options_.page, static_cast<Bytes>(std::bit_ceil(static_cast<std::uint64_t>(bytes))));
  }
  const Bytes paged = RoundUp(std::max<Bytes>(bytes, 1), options_.page);
  return paged > options_.large ? RoundUp(paged, options_.large) : paged;
}

bool MxnetPoolAllocator::TakeFromDevice(Bytes size) {
  const Bytes reserve = device_->total() / 100 * options_.reserve_percent;
  if (device_->capacity() - device_->used() - size < reserve) EmptyCache();
  if (device_->Take(size)) return true;
  EmptyCache();
  return device_->Take(size);
}

std::optional<Block> MxnetPoolAllocator::Allocate(Bytes bytes, StreamId /*stream*/) {
  if (CannotFit(bytes, *device_)) {
    ++usage_.out_of_memory;
    return std::nullopt;
  }
  const Bytes size = Rounded(bytes);
  std::vector<std::int32_t>& bucket = waiting_[size];
  std::int32_t id = 0;
  if (!bucket.empty()) {
    id = bucket.back();
    bucket.pop_back();
  } else {
    if (!TakeFromDevice(size)) {
      ++usage_.out_of_memory;
      return std::nullopt;
    }
    usage_.Take(size);
    if (unused_.empty()) {
      id = static_cast<std::int32_t>(held_.size());
      held_.emplace_back();
    } else {
      id = unused_.back();
      unused_.pop_back();
    }
    held_[static_cast<std::size_t>(id)] = {size, next_};
    next_ += static_cast<Address>(size);
  }
  usage_.Allocate(size);
  return Block{BlockId(static_cast<std::size_t>(id)), held_[static_cast<std::size_t>(id)].address, size};
}

void MxnetPoolAllocator::Free(BlockId block) {
  const Bytes bytes = held_[block.index()].bytes;
  usage_.Free(bytes);
  waiting_[bytes].push_back(block.value);
}

void MxnetPoolAllocator::EmptyCache() {
  for (auto& [bytes, bucket] : waiting_) {
    for (const std::int32_t id : bucket) {
      device_->Give(bytes);
      usage_.Give(bytes);
      unused_.push_back(id);
    }
    bucket.clear();
  }
}

std::unique_ptr<Allocator> MxnetPoolAllocator::CloneOnto(DeviceMemory& device, Streams& /*streams*/) const {
  auto clone = std::make_unique<MxnetPoolAllocator>(*this);
  clone->device_ = &device;
  return clone;
}

}  // namespace ebbtide::alloc
