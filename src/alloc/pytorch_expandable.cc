// Maps pages where a request needs them, and unmaps free ones when the cache is emptied.
#include "alloc/pytorch_expandable.h"

#include <cassert>

namespace ebbtide::alloc {
namespace {

// A device without a limit still has ranges of a size: this, or what a larger request needs.
constexpr Bytes kLargestDevice = Bytes{1} << 46;

}  // namespace

Bytes PytorchExpandableAllocator::SizeItCanGrowTo(Index index) const {
  const Node& node = At(index);
  return node.size + (node.next != kNone && !At(node.next).mapped ? At(node.next).size : 0);
}

// Best fit, where a block in front of unmapped addresses counts as large as it could become.
PytorchBlocks::Index PytorchExpandableAllocator::FindFree(const Request& request) {
  if (CollectsGarbage()) ++PoolOf(request.small).searches;
  FreeSet& free = FreeOf(request.small, request.stream);
  FreeSet::Position position = free.LowerBound(request.size);
  if (position == free.end()) return kNone;
  for (FreeSet::Position next = free.Next(position);
       next != free.end() && SizeItCanGrowTo(free.At(next).block) < SizeItCanGrowTo(free.At(position).block);
       next = free.Next(next)) {
    position = next;
  }
  if (Oversize(request, free.At(position).size)) return kNone;
  const Index block = free.At(position).block;
  free.Erase(position);
  return block;
}

bool PytorchExpandableAllocator::HasRoom(Index first, Bytes size) const {
  Bytes room = 0;
  for (Index index = first; room < size && index != kNone && IsIdle(At(index)); index = At(index).next) {
    room += At(index).size;
  }
  return room >= size;
}

// The lowest unmapped addresses that, with the free block before them and what follows, are enough.
PytorchBlocks::Index PytorchExpandableAllocator::FindRoom(const Request& request) {
  const FreeSet& unmapped = UnmappedOf(request.small, request.stream);
  for (FreeSet::Position p = unmapped.begin(); p != unmapped.end(); p = unmapped.Next(p)) {
    Index first = unmapped.At(p).block;
    if (const Index before = At(first).previous; before != kNone && IsIdle(At(before))) first = before;
    if (HasRoom(first, request.size)) return first;
  }
  return NewRange(request);
}

PytorchBlocks::Index PytorchExpandableAllocator::NewRange(const Request& request) {
  const Bytes page = request.small ? kSmallSegment : options_.large_segment_size;
  const Bytes total = std::min(device_->total(), kLargestDevice);
  const Bytes rounded = RoundUp(request.size, page);
  const Bytes size = std::max(RoundUp(total + total / 8, page), device_->total() > total ? rounded : 0);
  if (size < rounded) return kNone;
  const std::optional<Address> begin = device_->Reserve(size);
  if (!begin) return kNone;
  const Index index = NewNode();
  Node& node = At(index);
  node.address = *begin;
  node.size = size;
  node.stream = request.stream;
  node.small = request.small;
  node.mapped = false;
  node.age = NextAge();
  node.range = static_cast<Index>(ranges_.size());
  ranges_.push_back({*begin, page});
  InsertUnmapped(index);
  return index;
}

PytorchBlocks::Index PytorchExpandableAllocator::NewPiece(Index like, Address address, Bytes size, bool mapped) {
  const Index index = NewNode();
  Node& node = At(index);
  node.address = address;
  node.size = size;
  node.stream = At(like).stream;
  node.small = At(like).small;
  node.range = At(like).range;
  node.age = At(like).age;
  node.mapped = mapped;
  return index;
}

// Backs the first `size` bytes of an unmapped block, in whole pages; it is then free, joined with its neighbours.
bool PytorchExpandableAllocator::Map(Index index, Bytes size) {
  assert(!At(index).mapped && size <= At(index).size);
  const Bytes page = ranges_[static_cast<std::size_t>(At(index).range)].page;
  const Bytes mapped = (size + page - 1) / page * page;
  if (!device_->Take(mapped)) return false;
  Took(At(index), At(index).address, mapped);
  EraseUnmapped(index);
  At(index).mapped = true;
  if (mapped < At(index).size) {
    const Index rest =
        NewPiece(index, At(index).address + static_cast<Address>(mapped), At(index).size - mapped, false);
    Link(index, rest, At(index).next);
    InsertUnmapped(rest);
    At(index).size = mapped;
  }
  TryJoin(index, At(index).previous);
  TryJoin(index, At(index).next);
  InsertFree(index);
  return true;
}

PytorchBlocks::Index PytorchExpandableAllocator::Grow(const Request& request) {
  if (ExceedsFraction(request.segment)) return kNone;
  Index block = FindRoom(request);
  if (block == kNone) return kNone;
  if (!At(block).mapped && !Map(block, std::min(At(block).size, request.size))) return kNone;
  while (At(block).size < request.size) {
    const Index next = At(block).next;
    if (!Map(next, std::min(request.size - At(block).size, At(next).size))) return kNone;
    block = next;
  }
  EraseFree(block);
  return block;
}

void PytorchExpandableAllocator::Unmap(Index index) {
  const Range& range = ranges_[static_cast<std::size_t>(At(index).range)];
  const Address begin = At(index).address;
  const Address end = begin + static_cast<Address>(At(index).size);
  const Address page = static_cast<Address>(range.page);
  const Address first = range.begin + (begin - range.begin + page - 1) / page * page;
  const Address last = range.begin + (end - range.begin) / page * page;
  if (first >= last) return;
  streams_->Wait(streams_->Record(At(index).stream));
  EraseFree(index);
  if (first > begin) {
    const Index before = NewPiece(index, begin, static_cast<Bytes>(first - begin), true);
    Link(At(index).previous, before, index);
    InsertFree(before);
  }
  if (end > last) {
    const Index after = NewPiece(index, last, static_cast<Bytes>(end - last), true);
    Link(index, after, At(index).next);
    InsertFree(after);
  }
  const Bytes unmapped = static_cast<Bytes>(last - first);
  At(index).address = first;
  At(index).size = unmapped;
  At(index).mapped = false;
  TryJoin(index, At(index).previous);
  TryJoin(index, At(index).next);
  InsertUnmapped(index);
  device_->Give(unmapped);
  Gave(At(index), first, unmapped);
}

void PytorchExpandableAllocator::ReleaseCached() {
  FinishEvents();
  for (const bool small : {false, true}) {
    std::vector<Index> free_blocks;
    for (const FreeSet& free : PoolOf(small).free) {
      for (FreeSet::Position p = free.begin(); p != free.end(); p = free.Next(p))
        free_blocks.push_back(free.At(p).block);
    }
    for (const Index index : free_blocks) {
      Unmap(index);
      const Node& node = At(index);
      if (node.previous != kNone || node.next != kNone || node.mapped) continue;
      EraseUnmapped(index);
      device_->Unreserve(node.address);
      DropNode(index);
    }
  }
}

std::unique_ptr<Allocator> PytorchExpandableAllocator::CloneOnto(DeviceMemory& device, Streams& streams) const {
  return std::unique_ptr<Allocator>(new PytorchExpandableAllocator(*this, device, streams));
}

}  // namespace ebbtide::alloc
