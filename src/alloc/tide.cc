#include "alloc/tide.h"

#include <algorithm>

namespace ebbtide::alloc {
namespace {

constexpr Bytes kStep = 512;
constexpr Bytes kPage = DeviceMemory::kGranule;
constexpr Bytes kSmall = kMiB;
constexpr Bytes kLargestDevice = Bytes{1} << 40;
constexpr Bytes kAddresses = 4;         // for each byte of the device: what lies in pieces can be had in one elsewhere
constexpr int kLooks = 8;               // chunks of another stream that are looked at for one that is ordered
constexpr std::size_t kMostParts = 32;  // of a chunk; beyond, neighbours share their uses

// The later of each stream's.
void Add(std::vector<Event>& uses, const Event& event) {
  const auto same = std::ranges::find(uses, event.stream, &Event::stream);
  if (same == uses.end()) {
    uses.push_back(event);
  } else {
    same->position = std::max(same->position, event.position);
  }
}

Bytes DownToPage(Address address) { return static_cast<Bytes>(address) / kPage * kPage; }

}  // namespace

// ---- Chunks

TideAllocator::Index TideAllocator::NewChunk(const Chunk& like, Address address, Bytes size) {
  Chunk chunk;
  chunk.range = like.range;
  chunk.mapped = like.mapped;
  chunk.address = address;
  chunk.size = size;
  if (unused_.empty()) {
    chunks_.push_back(std::move(chunk));
    return static_cast<Index>(chunks_.size() - 1);
  }
  const Index index = unused_.back();
  unused_.pop_back();
  chunk.number = At(index).number + 1;
  At(index) = std::move(chunk);
  return index;
}

bool TideAllocator::Reserve(std::uint8_t range) {
  const Bytes total = std::min(device_->total(), kLargestDevice);
  const Bytes size = (kAddresses * total + kPage - 1) / kPage * kPage;
  const std::optional<Address> begin = device_->Reserve(size);
  if (!begin) return false;
  Chunk like;
  like.range = range;
  like.mapped = false;
  ranges_[range].reserved = true;
  ranges_[range].sets.resize(kFirstStream);
  Put(NewChunk(like, *begin, size));
  return true;
}

TideAllocator::Index TideAllocator::SplitOff(Index index, Bytes size) {
  const Index rest = NewChunk(At(index), At(index).address + static_cast<Address>(size), At(index).size - size);
  Chunk& chunk = At(index);
  Chunk& behind = At(rest);
  behind.previous = index;
  behind.next = chunk.next;
  if (behind.next != kNone) At(behind.next).previous = rest;
  chunk.next = rest;
  chunk.size = size;
  Bytes before = 0;
  for (Part& part : chunk.parts) {
    const Bytes end = before + part.bytes;
    if (end > size) behind.parts.push_back({end - std::max(before, size), part.uses});
    part.bytes = std::max<Bytes>(0, std::min(end, size) - before);
    before = end;
  }
  std::erase_if(chunk.parts, [](const Part& part) { return part.bytes == 0; });
  return rest;
}

// The second, which is right behind the first, becomes a part of it. Neither is in a set.
void TideAllocator::Swallow(Index first, Index second) {
  Chunk& chunk = At(first);
  Chunk& gone = At(second);
  if (chunk.mapped && (!chunk.parts.empty() || !gone.parts.empty())) {
    if (chunk.parts.empty()) chunk.parts.push_back({chunk.size, {}});
    if (gone.parts.empty()) gone.parts.push_back({gone.size, {}});
    std::ranges::move(gone.parts, std::back_inserter(chunk.parts));
    while (chunk.parts.size() > kMostParts) {
      std::vector<Part> halved;
      for (std::size_t i = 0; i < chunk.parts.size(); ++i) {
        if (i % 2 == 0) {
          halved.push_back(std::move(chunk.parts[i]));
        } else {
          halved.back().bytes += chunk.parts[i].bytes;
          for (const Event& use : chunk.parts[i].uses) Add(halved.back().uses, use);
        }
      }
      chunk.parts = std::move(halved);
    }
  }
  chunk.size += gone.size;
  chunk.next = gone.next;
  if (chunk.next != kNone) At(chunk.next).previous = first;
  gone.parts.clear();
  ++gone.number;
  unused_.push_back(second);
}

// ---- Empty chunks

// Forgets the uses that are over.
std::size_t TideAllocator::SetOf(Chunk& chunk) {
  StreamId only;
  bool any = false, several = false;
  for (Part& part : chunk.parts) {
    std::erase_if(part.uses, [&](const Event& use) { return streams_->Reached(use); });
    for (const Event& use : part.uses) {
      several |= any && use.stream != only;
      only = use.stream;
      any = true;
    }
  }
  if (!any) {
    chunk.parts.clear();
    return kClean;
  }
  return several ? kMixed : kFirstStream + only.index();
}

void TideAllocator::Put(Index index) {
  Range& range = ranges_[At(index).range];
  if (At(index).mapped) At(index).set = SetOf(At(index));
  const auto may_join = [&](Index other) {
    if (other == kNone || !At(other).listed || At(other).mapped != At(index).mapped) return false;
    // Finished parts go with any neighbour: each part keeps its own uses.
    const std::size_t a = At(other).set, b = At(index).set;
    return !At(index).mapped || a == b || a == kClean || b == kClean;
  };
  if (const Index behind = At(index).next; may_join(behind)) {
    Take(behind);
    At(index).set = std::max(At(index).set, At(behind).set);
    Swallow(index, behind);
  }
  if (const Index before = At(index).previous; may_join(before)) {
    Take(before);
    At(before).set = std::max(At(before).set, At(index).set);
    Swallow(before, index);
    index = before;
  }
  Chunk& chunk = At(index);
  ++chunk.number;
  chunk.listed = true;
  if (!chunk.mapped) {
    range.unmapped.emplace(chunk.address, index);
    return;
  }
  if (chunk.set >= range.sets.size()) range.sets.resize(chunk.set + 1);
  range.sets[chunk.set].Insert({chunk.size, chunk.address, 0, index});
  if (chunk.set != kClean) Watch(index);
}

void TideAllocator::Take(Index index) {
  Chunk& chunk = At(index);
  Range& range = ranges_[chunk.range];
  chunk.listed = false;
  if (chunk.mapped) {
    range.sets[chunk.set].Erase(chunk.size, 0, chunk.address);
  } else {
    range.unmapped.erase(chunk.address);
  }
}

// The chunk is looked at again when the last of its uses on some stream is over.
void TideAllocator::Watch(Index index) {
  std::vector<Event> last;
  for (const Part& part : At(index).parts) {
    for (const Event& use : part.uses) Add(last, use);
  }
  for (const Event& use : last) {
    if (use.stream.index() >= waiting_.size()) waiting_.resize(use.stream.index() + 1);
    waiting_[use.stream.index()].push_back({use, index, At(index).number});
  }
}

void TideAllocator::Poll() {
  for (std::deque<Waiting>& queue : waiting_) {
    while (!queue.empty() && streams_->Reached(queue.front().event)) {
      const Waiting first = queue.front();
      queue.pop_front();
      const Chunk& chunk = At(first.chunk);
      if (chunk.number != first.number || !chunk.listed) continue;
      Take(first.chunk);
      Put(first.chunk);
    }
  }
}

// ---- Meeting requests

void TideAllocator::Ordered(StreamId stream, const Event& event) {
  if (stream.index() >= known_.size()) known_.resize(stream.index() + 1);
  std::vector<std::int64_t>& known = known_[stream.index()];
  if (event.stream.index() >= known.size()) known.resize(event.stream.index() + 1, 0);
  known[event.stream.index()] = std::max(known[event.stream.index()], event.position);
}

bool TideAllocator::IsOrdered(const Chunk& chunk, Bytes bytes, StreamId stream) const {
  for (const Part& part : chunk.parts) {
    for (const Event& use : part.uses) {
      if (use.stream == stream || streams_->Reached(use)) continue;
      if (stream.index() >= known_.size() || use.stream.index() >= known_[stream.index()].size()) return false;
      if (known_[stream.index()][use.stream.index()] < use.position) return false;
    }
    if ((bytes -= part.bytes) <= 0) break;
  }
  return true;
}

// None of the three classes costs time, so the smallest chunk of all is taken; of several, that of the first class.
TideAllocator::Index TideAllocator::FindWithoutWait(Range& range, Bytes size, StreamId stream, Class& met) {
  Index best = kNone;
  const auto consider = [&](const FreeSet& set, Class its, int looks) {
    auto p = set.LowerBound(size);
    for (; looks > 0 && p != set.end(); --looks, p = set.Next(p)) {
      const FreeSet::Entry& entry = set.At(p);
      if (best != kNone && entry.size >= At(best).size) return;
      if (its == kOrdered && !IsOrdered(At(entry.block), size, stream)) continue;
      best = entry.block;
      met = its;
      return;
    }
  };
  const std::size_t own = kFirstStream + stream.index();
  if (own < range.sets.size()) consider(range.sets[own], kSameStream, 1);
  for (std::size_t set = kMixed; set < range.sets.size(); ++set) {
    if (set != own) consider(range.sets[set], kOrdered, kLooks);
  }
  consider(range.sets[kClean], kCompleted, 1);
  return best;
}

TideAllocator::Index TideAllocator::FindScheduled(Range& range, Bytes size, StreamId stream) {
  Index best = kNone;
  for (std::size_t set = kMixed; set < range.sets.size(); ++set) {
    if (set == kFirstStream + stream.index()) continue;
    const auto p = range.sets[set].LowerBound(size);
    if (p == range.sets[set].end()) continue;
    const FreeSet::Entry& entry = range.sets[set].At(p);
    if (best == kNone || entry.size < At(best).size) best = entry.block;
  }
  return best;
}

// By address. Only for when more memory is needed: it looks at all of them.
std::vector<TideAllocator::Index> TideAllocator::EmptyChunks(const Range& range) const {
  std::vector<Index> out;
  for (const FreeSet& set : range.sets) {
    for (auto p = set.begin(); p != set.end(); p = set.Next(p)) out.push_back(set.At(p).block);
  }
  for (const auto& [address, index] : range.unmapped) out.push_back(index);
  std::ranges::sort(out, {}, [&](Index index) { return At(index).address; });
  return out;
}

// Of all runs of empty chunks, the one that takes least from the device; of several, the lowest.
std::optional<TideAllocator::Run> TideAllocator::FindRun(const Range& range, Bytes size) const {
  std::optional<Run> best;
  const std::vector<Index> empty = EmptyChunks(range);
  for (auto first = empty.begin(); first != empty.end(); ++first) {
    Bytes left = size, to_map = 0;
    Address end = At(*first).address;
    for (auto chunk = first; left > 0 && chunk != empty.end() && At(*chunk).address == end; ++chunk) {
      const Chunk& one = At(*chunk);
      const Bytes part = std::min(left, one.size);
      if (!one.mapped) to_map += (part + kPage - 1) / kPage * kPage;
      left -= part;
      end += static_cast<Address>(one.size);
      if (best && to_map >= best->to_map) break;
    }
    if (left <= 0 && (!best || to_map < best->to_map)) best = Run{*first, to_map};
    if (best && best->to_map == 0) break;
  }
  return best;
}

// Makes one chunk in no set out of the run, with memory behind all of it. False: the device has not that much.
bool TideAllocator::Map(const Run& run, Bytes size) {
  if (run.to_map > 0 && !device_->Take(run.to_map)) return false;
  if (run.to_map > 0) usage_.Take(run.to_map);
  Bytes have = 0;
  for (Index index = run.first; have < size;) {
    Take(index);
    if (!At(index).mapped) {
      const Bytes part = (std::min(size - have, At(index).size) + kPage - 1) / kPage * kPage;
      if (part < At(index).size) Put(SplitOff(index, part));
      At(index).mapped = true;
    }
    have += At(index).size;
    const Index next = At(index).next;
    if (index != run.first) Swallow(run.first, index);
    index = next;
  }
  return true;
}

void TideAllocator::WaitFor(const Chunk& chunk, Bytes bytes, StreamId stream) {
  std::vector<Event> last;
  for (const Part& part : chunk.parts) {
    for (const Event& use : part.uses) {
      if (use.stream != stream && !streams_->Reached(use)) Add(last, use);
    }
    if ((bytes -= part.bytes) <= 0) break;
  }
  for (const Event& use : last) {
    const std::size_t other = use.stream.index();
    const bool is_known = stream.index() < known_.size() && other < known_[stream.index()].size() &&
                          known_[stream.index()][other] >= use.position;
    if (is_known) continue;
    ++waits_;
    Ordered(stream, use);
  }
}

// The chunk is in no set.
Block TideAllocator::Hand(Index index, Bytes size, StreamId stream) {
  WaitFor(At(index), size, stream);
  if (At(index).size > size) Put(SplitOff(index, size));
  Chunk& chunk = At(index);
  chunk.parts.clear();
  chunk.allocated = true;
  chunk.stream = stream;
  ++chunk.number;
  usage_.Allocate(size);
  return {BlockId(static_cast<std::size_t>(index)), chunk.address, size};
}

std::optional<Block> TideAllocator::Allocate(Bytes bytes, StreamId stream) {
  const auto fail = [&]() -> std::optional<Block> {
    ++usage_.out_of_memory;
    return std::nullopt;
  };
  if (bytes < 0 || bytes > kLargestDevice) return fail();
  const Bytes size = (std::max<Bytes>(bytes, 1) + kStep - 1) / kStep * kStep;
  const std::uint8_t number = size <= kSmall ? 0 : 1;
  Range& range = ranges_[number];
  if (!range.reserved && !Reserve(number)) return fail();
  Poll();
  Class met = kSameStream;
  Index index = FindWithoutWait(range, size, stream, met);
  if (index == kNone) {
    met = kScheduled;
    index = FindScheduled(range, size, stream);
  }
  if (index != kNone) {
    Take(index);
  } else {
    std::optional<Run> run = FindRun(range, size);
    if (!run) return fail();
    if (!Map(*run, size)) {
      GiveBack();
      run = FindRun(range, size);
      if (!run || !Map(*run, size)) return fail();
    }
    met = run->to_map > 0 ? kGrown : kScheduled;
    index = run->first;
  }
  ++met_[met];
  return Hand(index, size, stream);
}

void TideAllocator::Free(BlockId id) {
  const Index index = id.value;
  Chunk& chunk = At(index);
  chunk.allocated = false;
  usage_.Free(chunk.size);
  const Event last = streams_->Record(chunk.stream);
  if (!streams_->Reached(last)) chunk.parts.assign(1, {chunk.size, {last}});
  if (const auto others = others_.find(index); others != others_.end()) {
    if (chunk.parts.empty()) chunk.parts.push_back({chunk.size, {}});
    for (const StreamId stream : others->second) Add(chunk.parts[0].uses, streams_->Record(stream));
    others_.erase(others);
  }
  Put(index);
}

void TideAllocator::RecordStream(BlockId id, StreamId stream) {
  if (stream == At(id.value).stream) return;
  std::vector<StreamId>& others = others_[id.value];
  if (std::ranges::find(others, stream) == others.end()) others.push_back(stream);
}

// ---- Giving back

// Whole pages of what nobody uses any more.
void TideAllocator::GiveBack() {
  Poll();
  for (Range& range : ranges_) {
    if (!range.reserved) continue;
    std::vector<Index> clean;
    const FreeSet& set = range.sets[kClean];
    for (auto p = set.begin(); p != set.end(); p = set.Next(p)) clean.push_back(set.At(p).block);
    for (Index index : clean) {
      const Address end = At(index).address + static_cast<Address>(At(index).size);
      const Bytes from = DownToPage(At(index).address + kPage - 1) - static_cast<Bytes>(At(index).address);
      const Bytes to = DownToPage(end) - static_cast<Bytes>(At(index).address);
      if (to <= from) continue;
      Take(index);
      if (to < At(index).size) Put(SplitOff(index, to));
      if (from > 0) {
        const Index head = index;
        index = SplitOff(head, from);
        Put(head);
      }
      device_->Give(At(index).size);
      usage_.Give(At(index).size);
      At(index).mapped = false;
      Put(index);
    }
  }
}

void TideAllocator::EmptyCache() { GiveBack(); }

std::unique_ptr<Allocator> TideAllocator::CloneOnto(DeviceMemory& device, Streams& streams) const {
  auto clone = std::make_unique<TideAllocator>(*this);
  clone->device_ = &device;
  clone->streams_ = &streams;
  return clone;
}

}  // namespace ebbtide::alloc
