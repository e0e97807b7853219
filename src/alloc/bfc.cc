// The bins of the original are powers of two and each is tried in order of size and address: over all of them that is
// the smallest chunk that fits, at the lowest address.
#include "alloc/bfc.h"

#include <algorithm>

namespace ebbtide::alloc {
namespace {

constexpr Bytes kQuantum = 256;
constexpr std::int64_t kShrinkNumerator = 9, kShrinkDenominator = 10;  // of a region that the device refuses

Bytes RoundUp(Bytes bytes) { return (bytes + kQuantum - 1) / kQuantum * kQuantum; }

}  // namespace

BfcAllocator::BfcAllocator(const BfcOptions& options, DeviceMemory& device) : options_(options), device_(&device) {
  const Bytes free = device.capacity() - device.used();
  options_.limit = (options_.limit > 0 ? std::min(options_.limit, free) : free) / kQuantum * kQuantum;
  region_ = options_.allow_growth ? std::min(options_.first_region, options_.limit) : options_.limit;
}

bool BfcAllocator::Extend(Bytes bytes) {
  const Bytes left = options_.limit - usage_.reserved;
  if (bytes > left) return false;
  bool has_grown = false;
  while (region_ < bytes) {
    region_ *= 2;
    has_grown = true;
  }
  Bytes size = std::min(region_, left);
  bool is_taken = device_->Take(size);
  while (!is_taken) {
    const Bytes smaller = RoundUp(size / kShrinkDenominator * kShrinkNumerator);
    if (smaller < bytes || smaller >= size) return false;
    size = smaller;
    is_taken = device_->Take(size);
  }
  if (!has_grown) region_ = std::min(2 * region_, kTooLarge);
  // Regions are apart, so that chunks of different ones never join.
  const Address address = (Address{1} << 45) + static_cast<Address>(usage_.reserved) +
                          static_cast<Address>(regions_.size()) * static_cast<Address>(kQuantum);
  usage_.Take(size);
  const int chunk = NewChunk({.address = address, .bytes = size});
  regions_.push_back(chunk);
  AddFree(chunk);
  return true;
}

int BfcAllocator::NewChunk(const Chunk& chunk) {
  if (unused_.empty()) {
    chunks_.push_back(chunk);
    return static_cast<int>(chunks_.size()) - 1;
  }
  const int id = unused_.back();
  unused_.pop_back();
  At(id) = chunk;
  return id;
}

void BfcAllocator::AddFree(int chunk) { free_.emplace(FreeChunk{At(chunk).bytes, At(chunk).address}, chunk); }
void BfcAllocator::RemoveFree(int chunk) { free_.erase({At(chunk).bytes, At(chunk).address}); }

void BfcAllocator::Split(int id, Bytes bytes) {
  const Chunk whole = At(id);
  const int rest = NewChunk({.address = whole.address + static_cast<Address>(bytes),
                             .bytes = whole.bytes - bytes,
                             .previous = id,
                             .next = whole.next});
  if (whole.next >= 0) At(whole.next).previous = rest;
  At(id).bytes = bytes;
  At(id).next = rest;
  AddFree(rest);
}

int BfcAllocator::FindFree(Bytes bytes) {
  const auto found = free_.lower_bound({bytes, 0});
  if (found == free_.end()) return -1;
  const int chunk = found->second;
  free_.erase(found);
  At(chunk).is_free = false;
  const Bytes size = At(chunk).bytes;
  if (size >= 2 * bytes || size - bytes >= options_.most_waste) Split(chunk, bytes);
  return chunk;
}

std::optional<Block> BfcAllocator::Allocate(Bytes bytes, StreamId /*stream*/) {
  if (CannotFit(bytes, *device_)) {
    ++usage_.out_of_memory;
    return std::nullopt;
  }
  const Bytes size = RoundUp(std::max<Bytes>(bytes, 1));
  int chunk = FindFree(size);
  if (chunk < 0 && Extend(size)) chunk = FindFree(size);
  if (chunk < 0) {
    ++usage_.out_of_memory;
    return std::nullopt;
  }
  usage_.Allocate(At(chunk).bytes);
  return Block{BlockId(static_cast<std::size_t>(chunk)), At(chunk).address, At(chunk).bytes};
}

// `next` goes.
void BfcAllocator::Join(int chunk, int next) {
  At(chunk).bytes += At(next).bytes;
  At(chunk).next = At(next).next;
  if (At(next).next >= 0) At(At(next).next).previous = chunk;
  unused_.push_back(next);
}

void BfcAllocator::Free(BlockId block) {
  int chunk = static_cast<int>(block.value);
  usage_.Free(At(chunk).bytes);
  At(chunk).is_free = true;
  if (const int next = At(chunk).next; next >= 0 && At(next).is_free) {
    RemoveFree(next);
    Join(chunk, next);
  }
  if (const int previous = At(chunk).previous; previous >= 0 && At(previous).is_free) {
    RemoveFree(previous);
    Join(previous, chunk);
    chunk = previous;
  }
  AddFree(chunk);
}

bool BfcAllocator::IsValid() const {
  Bytes total = 0, used = 0;
  std::size_t free_chunks = 0;
  for (const int region : regions_) {
    int previous = -1;
    for (int id = region; id >= 0; id = chunks_[static_cast<std::size_t>(id)].next) {
      const Chunk& chunk = chunks_[static_cast<std::size_t>(id)];
      if (chunk.previous != previous || chunk.bytes <= 0 || chunk.bytes % kQuantum != 0) return false;
      if (previous >= 0) {
        const Chunk& before = chunks_[static_cast<std::size_t>(previous)];
        if (before.address + static_cast<Address>(before.bytes) != chunk.address) return false;
        if (before.is_free && chunk.is_free) return false;
      }
      total += chunk.bytes;
      used += chunk.is_free ? 0 : chunk.bytes;
      free_chunks += chunk.is_free;
      previous = id;
    }
  }
  return total == usage_.reserved && used == usage_.allocated && free_chunks == free_.size();
}

std::unique_ptr<Allocator> BfcAllocator::CloneOnto(DeviceMemory& device, Streams& /*streams*/) const {
  auto clone = std::make_unique<BfcAllocator>(*this);
  clone->device_ = &device;
  return clone;
}

}  // namespace ebbtide::alloc
