// Free chunks of the tide allocator: which set one belongs to, what it joins, when it is looked at again.
#include <algorithm>
#include <utility>

#include "tide/tide.h"

namespace ebbtide::tide {
namespace {

constexpr std::uint16_t kFewParts = 32;     // as many are looked at one by one
constexpr std::size_t kManyWaiting = 4096;  // of a stream: then those that nobody waits for are thrown out

}  // namespace

void TideAllocator::Free(BlockId id) {
  const std::lock_guard lock(lock_);
  const Index index = id.value;
  Chunk& chunk = At(index);
  chunks_.Prefetch(chunk.previous);  // to be joined with, and seldom in a cache
  chunks_.Prefetch(chunk.next);
  usage_.Free(chunk.size);
  CountsOf(JobOf(chunk)).allocated -= chunk.size;
  if (quotas_.active()) quotas_.Release(JobOf(chunk), chunk.address, chunk.size);
  const Event last = device_->Record(chunk.stream);
  chunks_.SetUse(index, last);
  chunk.set = static_cast<std::uint16_t>(kFirstStream + chunk.stream.index());
  chunk.until = last.position;
  if (chunk.has_others) {
    const auto others = others_.find(index);
    for (const StreamId stream : others->second) chunks_.AddUse(index, device_->Record(stream));
    others_.erase(others);
    chunk.has_others = false;
    chunk.set = kMixed;
  }
  Put(index, State::kFree);
}

void TideAllocator::RecordStream(BlockId id, StreamId stream) {
  const std::lock_guard lock(lock_);
  Chunk& chunk = At(id.value);
  At(stream);
  if (stream == chunk.stream) return;
  std::vector<StreamId>& others = others_[id.value];
  if (std::ranges::find(others, stream) == others.end()) others.push_back(stream);
  chunk.has_others = true;
}

// Forgets uses that are over, and finds the set of the chunk. One with many parts is of one stream (MayJoin): it keeps
// its set until that stream has got past them all.
void TideAllocator::Judge(Index index) {
  Chunk& chunk = At(index);
  if (chunk.parts > kFewParts) {
    const std::size_t stream = chunk.set - kFirstStream;
    if (streams_[stream].finished < chunk.until) return;
    chunks_.DropParts(index);
    chunk.set = kClean;
    chunk.until = 0;
    return;
  }
  StreamId only;
  bool several = false;
  std::int64_t until = 0;
  chunks_.ForUses(index, chunk.size, [&](Event& use) {
    if (IsOver(use)) {
      use.stream = StreamId();
      return true;
    }
    several |= only.valid() && use.stream != only;
    only = use.stream;
    until = std::max(until, use.position);
    return true;
  });
  if (!only.valid()) chunks_.DropParts(index);
  chunk.until = until;
  chunk.set = !only.valid() ? kClean : several ? kMixed : static_cast<std::uint16_t>(kFirstStream + only.index());
}

// Whether the chunk, in that state, and the other are one.
bool TideAllocator::MayJoin(Index index, Index other, State state) const {
  if (!chunks_.Is(other, state)) return false;
  if (state == State::kUnmapped) return true;
  // Finished parts go with any neighbour: each part keeps its own uses.
  const std::uint16_t a = chunks_[other].set, b = chunks_[index].set;
  if (a != b && a != kClean && b != kClean) return false;
  return (a != kMixed && b != kMixed) || chunks_[index].parts + chunks_[other].parts < kFewParts;
}

// The chunk, which is in hand, is free or without memory from now on.
void TideAllocator::Put(Index index, State state) {
  if (state == State::kFree) Judge(index);
  if (const Index behind = At(index).next; MayJoin(index, behind, state)) {
    Take(behind);
    chunks_.Swallow(index, behind);
  }
  if (const Index before = At(index).previous; MayJoin(index, before, state)) {
    Take(before);
    chunks_.Swallow(before, index);
    index = before;
  }
  Chunk& chunk = At(index);
  Range& range = ranges_[chunk.large];
  ++chunk.number;
  chunk.state = state;
  if (state == State::kUnmapped) {
    range.unmapped.emplace(chunk.address, index);
    return;
  }
  if (chunk.set >= range.sets.size()) range.sets.resize(chunk.set + 1u);
  range.sets[chunk.set].Add(chunks_, index);
  range.spans.Add(chunks_, index);
  if (chunk.set != kClean) Watch(index);
}

// The chunk is in hand from now on: in no set, no neighbour to be joined with.
void TideAllocator::Take(Index index) {
  Chunk& chunk = At(index);
  Range& range = ranges_[chunk.large];
  if (chunk.state == State::kUnmapped) {
    range.unmapped.erase(chunk.address);
  } else {
    range.sets[chunk.set].Remove(chunks_, index);
    range.spans.Remove(chunks_, index);
  }
  chunk.state = State::kInHand;
}

// The chunk is looked at again when the last of its uses on some stream is over.
void TideAllocator::Watch(Index index) {
  const Chunk& chunk = At(index);
  if (chunk.set != kMixed) {
    return Watch(StreamId(chunk.set - kFirstStream), {chunk.until, index, chunk.number});
  }
  chunks_.ForUses(index, chunk.size, [&](const Event& use) {
    std::int64_t& needed = streams_[use.stream.index()].needed;
    needed = std::max(needed, use.position);
    return true;
  });
  for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
    const std::int64_t last = std::exchange(streams_[stream].needed, 0);
    if (last > 0) Watch(StreamId(stream), {last, index, chunk.number});
  }
}

void TideAllocator::Watch(StreamId stream, const Waiting& waiting) {
  std::deque<Waiting>& queue = At(stream).waiting;
  queue.push_back(waiting);
  if (queue.size() < kManyWaiting || queue.size() < 4 * chunks_.size()) return;
  std::erase_if(queue, [&](const Waiting& one) { return At(one.chunk).number != one.number; });
}

void TideAllocator::Poll() {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].waiting.empty()) continue;
    streams_[i].finished = std::max(streams_[i].finished, device_->Finished(StreamId(i)));
    while (!streams_[i].waiting.empty() && streams_[i].waiting.front().position <= streams_[i].finished) {
      const Waiting first = streams_[i].waiting.front();
      streams_[i].waiting.pop_front();
      const Chunk& chunk = At(first.chunk);
      if (chunk.number != first.number || chunk.state != State::kFree) continue;
      Take(first.chunk);
      Put(first.chunk, State::kFree);
    }
  }
}

}  // namespace ebbtide::tide
