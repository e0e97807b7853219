// Segments of cudaMalloc: how a block is found, when a segment is taken, split and given back.
#include "alloc/pytorch.h"

namespace ebbtide::alloc {

// Best fit within the stream. A block that may not serve the request ends the search: a larger one may not either.
PytorchBlocks::Index PytorchAllocator::FindFree(const Request& request) {
  if (CollectsGarbage()) ++PoolOf(request.small).searches;
  FreeSet& free = FreeOf(request.small, request.stream);
  const FreeSet::Position position = free.LowerBound(request.size);
  if (position == free.end() || Oversize(request, free.At(position).size)) return kNone;
  const Index block = free.At(position).block;
  free.Erase(position);
  return block;
}

PytorchBlocks::Index PytorchAllocator::Grow(const Request& request) {
  if (ExceedsFraction(request.segment)) return kNone;
  const std::optional<Address> address = device_->Allocate(request.segment);
  if (!address) return kNone;
  const Index index = NewNode();
  Node& node = At(index);
  node.address = *address;
  node.size = request.segment;
  node.age = NextAge();
  node.stream = request.stream;
  node.small = request.small;
  Took(node, node.address, node.size);
  return index;
}

bool PytorchAllocator::ShouldSplit(const Node& node, Bytes size) const {
  const Bytes rest = node.size - size;
  if (node.small) return rest >= kQuantum;
  return size < options_.max_split_size && rest > kSmallRequest;
}

// cudaFree waits for the device.
void PytorchAllocator::ReleaseSegment(Index index) {
  EraseFree(index);
  streams_->WaitAll();
  device_->Free(At(index).address);
  Gave(At(index), At(index).address, At(index).size);
  DropNode(index);
}

bool PytorchAllocator::ReleaseOversize(const Request& request) {
  if (options_.max_split_size == PytorchOptions::kUnlimited) return false;
  const Bytes wanted = std::max(request.size, options_.max_split_size);
  FreeSet& free = FreeOf(request.small, request.stream);
  if (const FreeSet::Position one = free.LowerBound(wanted); one != free.end()) {
    ReleaseSegment(free.At(one).block);
    return true;
  }
  Bytes released = 0;
  while (released < wanted && !free.empty()) {
    const FreeSet::Entry largest = free.At(free.Previous(free.end()));
    if (largest.size < options_.max_split_size) break;
    released += largest.size;
    ReleaseSegment(largest.block);
  }
  return released >= wanted;
}

// Blocks older than the average go, and again, until memory is down to the threshold. Age counts searches of the pool.
void PytorchAllocator::CollectGarbage() {
  const Bytes threshold = static_cast<Bytes>(options_.garbage_collection_threshold * static_cast<double>(limit()));
  if (usage_.reserved <= threshold) return;
  const Bytes wanted = usage_.reserved - threshold;
  Pool& pool = PoolOf(false);
  std::vector<Index> whole;
  std::int64_t ages = 0;
  const auto age = [&](Index index) { return pool.searches - At(index).inserted_at; };
  for (const FreeSet& free : pool.free) {
    for (FreeSet::Position p = free.begin(); p != free.end(); p = free.Next(p)) {
      if (!IsWhole(At(free.At(p).block))) continue;
      whole.push_back(free.At(p).block);
      ages += age(whole.back());
    }
  }
  Bytes reclaimed = 0;
  for (bool any = true; any && reclaimed < wanted && !whole.empty();) {
    any = false;
    const double mean = static_cast<double>(ages) / static_cast<double>(whole.size());
    std::vector<Index> younger;
    for (const Index index : whole) {
      if (static_cast<double>(age(index)) < mean) {
        younger.push_back(index);
        continue;
      }
      any = true;
      reclaimed += At(index).size;
      ages -= age(index);
      ReleaseSegment(index);
    }
    whole = std::move(younger);
  }
}

void PytorchAllocator::ReleaseCached() {
  FinishEvents();
  std::vector<Index> whole;
  for (const bool small : {false, true}) {
    for (const FreeSet& free : PoolOf(small).free) {
      for (FreeSet::Position p = free.begin(); p != free.end(); p = free.Next(p)) {
        if (IsWhole(At(free.At(p).block))) whole.push_back(free.At(p).block);
      }
    }
  }
  for (const Index index : whole) ReleaseSegment(index);
}

std::optional<std::vector<BlockId>> PytorchAllocator::Restore(const std::vector<InitialSegment>& segments) {
  std::vector<BlockId> ids;
  for (const InitialSegment& segment : segments) {
    if (!device_->Place(segment.address, segment.bytes)) return std::nullopt;
    usage_.Take(segment.bytes);
    Index before = kNone;
    for (const InitialBlock& block : segment.blocks) {
      const Index index = NewNode();
      Node& node = At(index);
      node.address = block.address;
      node.size = block.bytes;
      node.stream = segment.stream;
      node.small = segment.small;
      node.allocated = block.allocated;
      Link(before, index, kNone);
      before = index;
      if (block.allocated) {
        usage_.Allocate(block.bytes);
        ids.push_back(BlockId(static_cast<std::size_t>(index)));
      } else {
        InsertFree(index);
      }
    }
  }
  usage_.device_allocations = 0;  // others made them
  return ids;
}

std::unique_ptr<Allocator> PytorchAllocator::CloneOnto(DeviceMemory& device, Streams& streams) const {
  return std::unique_ptr<Allocator>(new PytorchAllocator(*this, device, streams));
}

}  // namespace ebbtide::alloc
