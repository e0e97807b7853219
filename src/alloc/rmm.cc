// One list of free pieces by address for each stream; pieces are joined within what came from the device at once.
#include "alloc/rmm.h"

#include <algorithm>

namespace ebbtide::alloc {
namespace {

constexpr Bytes kAlignment = 256;

}  // namespace

RmmAllocator::FreeList& RmmAllocator::ListOf(StreamId stream) {
  if (stream.index() >= lists_.size()) lists_.resize(stream.index() + 1);
  return lists_[stream.index()];
}

RmmAllocator::FreeList::iterator RmmAllocator::BestFit(FreeList& list, Bytes size) {
  auto best = list.end();
  for (auto piece = list.begin(); piece != list.end(); ++piece) {
    if (piece->second >= size && (best == list.end() || piece->second < best->second)) best = piece;
  }
  return best;
}

void RmmAllocator::Add(FreeList& list, Address address, Bytes size) {
  auto piece = list.emplace(address, size).first;
  const auto next = std::next(piece);
  if (next != list.end() && next->first == address + static_cast<Address>(size) && !heads_.contains(next->first)) {
    piece->second += next->second;
    list.erase(next);
  }
  if (piece == list.begin() || heads_.contains(address)) return;
  const auto before = std::prev(piece);
  if (before->first + static_cast<Address>(before->second) != address) return;
  before->second += piece->second;
  list.erase(piece);
}

Block RmmAllocator::Take(FreeList& from, FreeList::iterator piece, Bytes size, StreamId stream) {
  const auto [address, whole] = *piece;
  from.erase(piece);
  if (whole > size) from.emplace(address + static_cast<Address>(size), whole - size);
  usage_.Allocate(size);
  std::int32_t number = static_cast<std::int32_t>(held_.size());
  if (unused_.empty()) {
    held_.emplace_back();
  } else {
    number = unused_.back();
    unused_.pop_back();
  }
  held_[static_cast<std::size_t>(number)] = {address, size, stream};
  return {BlockId(static_cast<std::size_t>(number)), address, size};
}

bool RmmAllocator::Grow(Bytes size, StreamId stream) {
  for (Bytes more = std::max(size, usage_.reserved);; more = std::max(size, more / 2)) {
    if (const std::optional<Address> address = device_->Allocate(more)) {
      usage_.Take(more);
      heads_.insert(*address);
      ListOf(stream).emplace(*address, more);
      return true;
    }
    if (more == size) return false;
  }
}

std::optional<Block> RmmAllocator::Allocate(Bytes bytes, StreamId stream) {
  if (CannotFit(bytes, *device_)) {
    ++usage_.out_of_memory;
    return std::nullopt;
  }
  const Bytes size = (std::max<Bytes>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  FreeList& own = ListOf(stream);
  if (const auto piece = BestFit(own, size); piece != own.end()) return Take(own, piece, size, stream);
  for (FreeList& other : lists_) {
    if (&other == &own) continue;
    const auto piece = BestFit(other, size);
    if (piece == other.end()) continue;
    ++waits_;
    return Take(other, piece, size, stream);
  }
  for (FreeList& other : lists_) {
    if (&other == &own || other.empty()) continue;
    ++waits_;
    for (const auto& [address, piece] : FreeList(std::move(other))) Add(own, address, piece);
    other.clear();
    if (const auto piece = BestFit(own, size); piece != own.end()) return Take(own, piece, size, stream);
  }
  if (!Grow(size, stream)) {
    ++usage_.out_of_memory;
    return std::nullopt;
  }
  FreeList& grown = ListOf(stream);
  return Take(grown, BestFit(grown, size), size, stream);
}

void RmmAllocator::Free(BlockId id) {
  const Held& held = held_[id.index()];
  usage_.Free(held.size);
  Add(ListOf(held.stream), held.address, held.size);
  unused_.push_back(id.value);
}

void RmmAllocator::RecordStream(BlockId id, StreamId stream) {
  if (stream != held_[id.index()].stream) ++waits_;
}

std::unique_ptr<Allocator> RmmAllocator::CloneOnto(DeviceMemory& device, Streams& /*streams*/) const {
  auto clone = std::make_unique<RmmAllocator>(*this);
  clone->device_ = &device;
  return clone;
}

}  // namespace ebbtide::alloc
