// Segments of 32 MiB and more, cut into blocks in lists by address; free ones wait in a set by size.
#include "alloc/cuda_malloc_async.h"

#include <algorithm>

#include "alloc/reused_slots.h"

namespace ebbtide::alloc {
namespace {

constexpr Bytes kStep = 512;
constexpr Bytes kGrowth = 32 * kMiB;

}  // namespace

CudaMallocAsyncAllocator::CudaMallocAsyncAllocator(const PytorchOptions& options, DeviceMemory& device,
                                                   Streams& streams)
    : device_(&device), streams_(&streams) {
  if (options.per_process_memory_fraction < 1) {
    limit_ = static_cast<Bytes>(options.per_process_memory_fraction * static_cast<double>(device.total()));
  }
}

bool CudaMallocAsyncAllocator::IsOver(const Node& node) const {
  return std::all_of(node.freed.begin(), node.freed.end(),
                     [&](const Event& event) { return streams_->Reached(event); });
}

CudaMallocAsyncAllocator::Index CudaMallocAsyncAllocator::NewNode() { return TakeSlot(nodes_, unused_); }

CudaMallocAsyncAllocator::Index CudaMallocAsyncAllocator::Choose(Bytes size, StreamId stream) {
  Index after_a_wait = kNone;
  for (FreeSet::Position p = free_.LowerBound(size); p != free_.end(); p = free_.Next(p)) {
    const Index index = free_.At(p).block;
    const std::vector<Event>& freed = At(index).freed;
    if ((freed.size() == 1 && freed[0].stream == stream) || IsOver(At(index))) return index;
    if (after_a_wait == kNone) after_a_wait = index;
  }
  if (after_a_wait != kNone) ++inserted_waits_;
  return after_a_wait;
}

bool CudaMallocAsyncAllocator::Grow(Bytes size) {
  const Bytes segment = (size + kGrowth - 1) / kGrowth * kGrowth;
  const std::optional<Address> address = device_->Allocate(segment);
  if (!address) return false;
  usage_.Take(segment);
  const Index index = NewNode();
  At(index).address = *address;
  At(index).size = segment;
  segments_.emplace(*address, segment);
  first_of_segment_.emplace(*address, index);
  free_.Insert({segment, *address, 0, index});
  return true;
}

std::optional<Block> CudaMallocAsyncAllocator::Allocate(Bytes bytes, StreamId stream) {
  const auto fail = [&]() -> std::optional<Block> {
    ++usage_.out_of_memory;
    return std::nullopt;
  };
  if (CannotFit(bytes, *device_)) return fail();
  const Bytes size = (std::max<Bytes>(bytes, 1) + kStep - 1) / kStep * kStep;
  if (usage_.allocated + size > limit_) return fail();
  Index index = Choose(size, stream);
  if (index == kNone) {
    bool grown = Grow(size);
    if (!grown) {
      Trim(false);
      grown = Grow(size);
    }
    if (!grown) return fail();
    index = Choose(size, stream);
  }
  free_.Erase(At(index).size, 0, At(index).address);
  if (At(index).size > size) {
    const Index rest = NewNode();
    Node& block = At(index);
    Node& left = At(rest);
    left.address = block.address + static_cast<Address>(size);
    left.size = block.size - size;
    left.freed = block.freed;
    left.previous = index;
    left.next = block.next;
    if (left.next != kNone) At(left.next).previous = rest;
    block.next = rest;
    block.size = size;
    free_.Insert({left.size, left.address, 0, rest});
  }
  Node& block = At(index);
  block.allocated = true;
  block.stream = stream;
  block.freed.clear();
  usage_.Allocate(block.size);
  return Block{BlockId(static_cast<std::size_t>(index)), block.address, block.size};
}

// A block that several streams used is freed on a stream of its own that waited for them all.
void CudaMallocAsyncAllocator::Free(BlockId id) {
  Node& block = At(id.value);
  block.allocated = false;
  usage_.Free(block.size);
  block.freed = {streams_->Record(block.stream)};
  if (const auto uses = uses_.find(id.value); uses != uses_.end()) {
    for (const StreamId stream : uses->second) block.freed.push_back(streams_->Record(stream));
    uses_.erase(uses);
  }
  free_.Insert({block.size, block.address, 0, id.value});
  Join(id.value);
  if (block.previous != kNone) Join(block.previous);
}

void CudaMallocAsyncAllocator::RecordStream(BlockId id, StreamId stream) {
  if (stream == At(id.value).stream) return;
  std::vector<StreamId>& uses = uses_[id.value];
  if (std::find(uses.begin(), uses.end(), stream) == uses.end()) uses.push_back(stream);
}

// Pieces whose frees are over are alike; so are those freed on one stream, of which the later free counts.
bool CudaMallocAsyncAllocator::MayJoin(const Node& first, const Node& second) const {
  if (first.allocated || second.allocated) return false;
  if (first.freed.empty() && second.freed.empty()) return true;
  if (first.freed.size() == 1 && second.freed.size() == 1 && first.freed[0].stream == second.freed[0].stream) {
    return true;
  }
  return IsOver(first) && IsOver(second);
}

// Joins a block with the one behind it, if they are alike.
void CudaMallocAsyncAllocator::Join(Index index) {
  Node& first = At(index);
  const Index behind = first.next;
  if (behind == kNone || !MayJoin(first, At(behind))) return;
  Node& second = At(behind);
  free_.Erase(first.size, 0, first.address);
  free_.Erase(second.size, 0, second.address);
  first.size += second.size;
  first.next = second.next;
  if (first.next != kNone) At(first.next).previous = index;
  const bool second_is_later = first.freed.empty() || (!second.freed.empty() && !first.freed.empty() &&
                                                       second.freed[0].position > first.freed[0].position);
  if (second_is_later) first.freed = std::move(second.freed);
  free_.Insert({first.size, first.address, 0, index});
  unused_.push_back(behind);
}

void CudaMallocAsyncAllocator::Trim(bool wait) {
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const auto first = first_of_segment_.find(segment->first);
    bool unused = true;
    for (Index index = first->second; unused && index != kNone; index = At(index).next) {
      if (wait && !At(index).allocated) {
        for (const Event& event : At(index).freed) streams_->Wait(event);
      }
      unused = !At(index).allocated && IsOver(At(index));
    }
    if (!unused) {
      ++segment;
      continue;
    }
    for (Index index = first->second; index != kNone; index = At(index).next) {
      free_.Erase(At(index).size, 0, At(index).address);
      unused_.push_back(index);
    }
    device_->Free(segment->first);
    usage_.Give(segment->second);
    first_of_segment_.erase(first);
    segment = segments_.erase(segment);
  }
}

void CudaMallocAsyncAllocator::EmptyCache() { Trim(true); }

std::unique_ptr<Allocator> CudaMallocAsyncAllocator::CloneOnto(DeviceMemory& device, Streams& streams) const {
  auto clone = std::make_unique<CudaMallocAsyncAllocator>(*this);
  clone->device_ = &device;
  clone->streams_ = &streams;
  return clone;
}

}  // namespace ebbtide::alloc
