// The course of a request and of a free, with lists of blocks and queues of events, as in c10's CUDACachingAllocator.
#include "alloc/pytorch_blocks.h"

#include <cassert>

#include "alloc/reused_slots.h"

namespace ebbtide::alloc {

PytorchBlocks::PytorchBlocks(const PytorchOptions& options, DeviceMemory& device, Streams& streams)
    : options_(options), device_(&device), streams_(&streams) {
  has_limit_ = options.memory_fraction_is_set || options.per_process_memory_fraction < 1;
  limit_ = static_cast<Bytes>(options.per_process_memory_fraction * static_cast<double>(device.total()));
}

PytorchBlocks::PytorchBlocks(const PytorchBlocks& other, DeviceMemory& device, Streams& streams)
    : PytorchBlocks(other) {
  device_ = &device;
  streams_ = &streams;
  observer_ = nullptr;
}

Bytes PytorchBlocks::SegmentSize(Bytes size) const {
  if (size <= kSmallRequest) return kSmallSegment;
  if (size < kLargeRequest) return options_.large_segment_size;
  return (size + kLargeRounding - 1) / kLargeRounding * kLargeRounding;
}

std::optional<Block> PytorchBlocks::Allocate(Bytes bytes, StreamId stream) {
  if (waiting_count_ > 0) PollEvents();
  if (CannotFit(bytes, *device_)) {
    ++usage_.out_of_memory;
    return std::nullopt;
  }
  Request request;
  request.size = RoundRequest(options_, bytes);
  request.segment = SegmentSize(request.size);
  request.stream = stream;
  request.small = request.size <= kSmallRequest;

  Index found = FindFree(request);
  if (found == kNone) {
    if (CollectsGarbage()) CollectGarbage();
    found = Grow(request);
    if (found == kNone && ReleaseOversize(request)) found = Grow(request);
    if (found == kNone) {
      ReleaseCached();
      found = Grow(request);
    }
  }
  if (found == kNone) {
    ++usage_.out_of_memory;
    return std::nullopt;
  }
  return HandOut(found, request.size);
}

// The request gets the low addresses; what is left keeps its place and its node.
Block PytorchBlocks::HandOut(Index index, Bytes size) {
  if (ShouldSplit(At(index), size)) {
    const Index rest = index;
    index = NewNode();
    Node& block = At(index);
    Node& left = At(rest);
    block.address = left.address;
    block.size = size;
    block.stream = left.stream;
    block.range = left.range;
    block.age = left.age;
    block.small = left.small;
    block.previous = left.previous;
    block.next = rest;
    if (block.previous != kNone) At(block.previous).next = index;
    left.previous = index;
    left.address += static_cast<Address>(size);
    left.size -= size;
    InsertFree(rest);
  }
  Node& block = At(index);
  block.allocated = true;
  usage_.Allocate(block.size);
  return {BlockId(static_cast<std::size_t>(index)), block.address, block.size};
}

void PytorchBlocks::Free(BlockId id) {
  const Index index = id.value;
  Node& block = At(index);
  assert(block.allocated);
  block.allocated = false;
  usage_.Free(block.size);
  if (!block.used_elsewhere) {
    BecomeFree(index);
    return;
  }
  // Events are recorded now, so they also stand for what those streams did since the block was last used.
  const auto uses = uses_.find(index);
  for (const StreamId stream : uses->second) {
    if (stream.index() >= waiting_.size()) waiting_.resize(stream.index() + 1);
    waiting_[stream.index()].push_back({streams_->Record(stream), index});
    ++waiting_count_;
    ++block.events;
  }
  uses_.erase(uses);
  block.used_elsewhere = false;
}

void PytorchBlocks::RecordStream(BlockId id, StreamId stream) {
  Node& block = At(id.value);
  assert(block.allocated);
  if (stream == block.stream) return;
  std::vector<StreamId>& uses = uses_[id.value];
  if (std::find(uses.begin(), uses.end(), stream) == uses.end()) uses.push_back(stream);
  block.used_elsewhere = true;
}

// One queue per stream: a slow stream holds up only its own.
void PytorchBlocks::PollEvents() {
  for (std::deque<Waiting>& queue : waiting_) {
    while (!queue.empty() && streams_->Reached(queue.front().event)) {
      const Index block = queue.front().block;
      queue.pop_front();
      EventReached(block);
    }
  }
}

void PytorchBlocks::FinishEvents() {
  if (waiting_count_ == 0) return;
  for (std::deque<Waiting>& queue : waiting_) {
    for (; !queue.empty(); queue.pop_front()) {
      streams_->Wait(queue.front().event);
      EventReached(queue.front().block);
    }
  }
}

void PytorchBlocks::EventReached(Index index) {
  --waiting_count_;
  if (--At(index).events == 0) BecomeFree(index);
}

void PytorchBlocks::BecomeFree(Index index) {
  TryJoin(index, At(index).previous);
  TryJoin(index, At(index).next);
  InsertFree(index);
}

void PytorchBlocks::TryJoin(Index into, Index from) {
  if (from == kNone) return;
  Node& target = At(into);
  const Node& joined = At(from);
  if (!IsIdle(joined) || joined.mapped != target.mapped) return;
  if (joined.mapped) {
    EraseFree(from);
  } else {
    EraseUnmapped(from);
  }
  if (target.previous == from) {
    target.address = joined.address;
    target.previous = joined.previous;
    if (target.previous != kNone) At(target.previous).next = into;
  } else {
    target.next = joined.next;
    if (target.next != kNone) At(target.next).previous = into;
  }
  target.size += joined.size;
  DropNode(from);
}

PytorchBlocks::Index PytorchBlocks::NewNode() { return TakeSlot(nodes_, unused_); }

void PytorchBlocks::Link(Index before, Index added, Index after) {
  At(added).previous = before;
  At(added).next = after;
  if (before != kNone) At(before).next = added;
  if (after != kNone) At(after).previous = added;
}

void PytorchBlocks::InsertFree(Index index) {
  Node& node = At(index);
  node.inserted_at = PoolOf(node.small).searches;
  FreeOf(node).Insert({node.size, node.address, node.age, index});
}

void PytorchBlocks::EraseFree(Index index) {
  const Node& node = At(index);
  FreeOf(node).Erase(node.size, node.age, node.address);
}

bool PytorchBlocks::Oversize(const Request& request, Bytes block) const {
  if (request.size < options_.max_split_size) return block >= options_.max_split_size;
  return block >= request.size + options_.max_non_split_rounding;
}

}  // namespace ebbtide::alloc
