// Counts bytes and gives every block addresses of its own. What other streams still use goes back when they are done.
#include "alloc/no_fragmentation.h"

namespace ebbtide::alloc {
namespace {

constexpr Bytes kQuantum = 512;  // as everywhere, so that figures differ by fragmentation alone

}  // namespace

std::optional<Block> NoFragmentationAllocator::Allocate(Bytes bytes, StreamId stream) {
  if (!leaving_.empty()) Settle(false);
  if (CannotFit(bytes, *device_)) {
    ++usage_.out_of_memory;
    return std::nullopt;
  }
  const Bytes size = (bytes + kQuantum - 1) / kQuantum * kQuantum;
  bool taken = device_->Take(size);
  if (!taken && !leaving_.empty()) {
    Settle(true);
    taken = device_->Take(size);
  }
  if (!taken) {
    ++usage_.out_of_memory;
    return std::nullopt;
  }
  usage_.Take(size);
  usage_.Allocate(size);
  std::int32_t index = static_cast<std::int32_t>(held_.size());
  if (unused_.empty()) {
    held_.push_back({size, stream});
  } else {
    index = unused_.back();
    unused_.pop_back();
    held_[static_cast<std::size_t>(index)] = {size, stream};
  }
  const Address address = next_;
  next_ += static_cast<Address>(size);
  return Block{BlockId(static_cast<std::size_t>(index)), address, size};
}

void NoFragmentationAllocator::Free(BlockId block) {
  const Bytes bytes = held_[block.index()].bytes;
  usage_.Free(bytes);
  unused_.push_back(block.value);
  const auto uses = uses_.find(block.value);
  if (uses == uses_.end()) {
    Give(bytes);
    return;
  }
  Leaving leaving{.bytes = bytes, .events = {}};
  for (const StreamId stream : uses->second) leaving.events.push_back(streams_->Record(stream));
  leaving_.push_back(std::move(leaving));
  uses_.erase(uses);
}

void NoFragmentationAllocator::RecordStream(BlockId block, StreamId stream) {
  if (stream != held_[block.index()].stream) uses_[block.value].push_back(stream);
}

void NoFragmentationAllocator::Settle(bool wait) {
  std::erase_if(leaving_, [&](const Leaving& leaving) {
    for (const Event& event : leaving.events) {
      if (wait) streams_->Wait(event);
      if (!streams_->Reached(event)) return false;
    }
    Give(leaving.bytes);
    return true;
  });
}

void NoFragmentationAllocator::Give(Bytes bytes) {
  device_->Give(bytes);
  usage_.Give(bytes);
}

std::unique_ptr<Allocator> NoFragmentationAllocator::CloneOnto(DeviceMemory& device, Streams& streams) const {
  auto clone = std::make_unique<NoFragmentationAllocator>(*this);
  clone->device_ = &device;
  clone->streams_ = &streams;
  return clone;
}

}  // namespace ebbtide::alloc
