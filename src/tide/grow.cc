// The tide allocator and its device: runs of chunks that growth completes, mapping and unmapping, giving back.
#include <algorithm>
#include <utility>

#include "tide/tide.h"

namespace ebbtide::tide {
namespace {

constexpr Bytes kPage = DeviceMemory::kGranule;
constexpr Bytes kLargestDevice = Bytes{1} << 40;
constexpr Bytes kAddresses = 4;  // for each byte of the device: what lies in pieces can be had in one elsewhere

}  // namespace

bool TideAllocator::Reserve(Range& range, bool large) {
  const Bytes size = RoundUp(kAddresses * std::min(device_->total(), kLargestDevice), kPage);
  const std::optional<Address> begin = device_->Reserve(size);
  if (!begin) return false;
  range.reserved = true;
  range.sets.resize(kFirstStream);
  range.first = chunks_.New(*begin, size, large);
  Put(range.first, State::kUnmapped);
  return true;
}

// A chunk in hand that is large enough, with memory behind all of it; kNone: neither device nor quota has that much.
TideAllocator::Index TideAllocator::Grow(Request& request) {
  enum Attempt { kPlain, kBreaking, kAfterGivingSome, kAfterGivingAll, kAfterWaiting };
  for (const Attempt attempt : {kPlain, kBreaking, kAfterGivingSome, kAfterGivingAll, kAfterWaiting}) {
    request.may_break = attempt >= kBreaking;
    if (attempt == kAfterWaiting && !WaitForAll()) return kNone;
    if (attempt == kBreaking || attempt == kAfterWaiting) {
      if (const Index index = Find(request); index != kNone && Admits(request, index)) {
        Take(index);
        return index;
      }
    }
    if (attempt >= kAfterGivingAll) GiveBack(kTooLarge);
    std::optional<Run> run = FindRun(request);
    if (run && attempt == kPlain && MovePages(run->to_map)) run = FindRun(request);
    if (run && Map(*run, request.size)) {
      request.met = run->to_map > 0 ? kGrown : kScheduled;
      return run->first;
    }
    if (!run && attempt >= kBreaking) return kNone;
    if (run && attempt == kBreaking) GiveBack(run->to_map);
  }
  return kNone;
}

// Gives back what is free and finished for growth to take again in one piece. False: it did not.
bool TideAllocator::MovePages(Bytes bytes) {
  if (bytes == 0 || moved_ + bytes > usage_.reserved_peak) return false;
  const Bytes before = given_back_;
  GiveBack(bytes);
  moved_ += given_back_ - before;
  return given_back_ > before;
}

// Of all runs of chunks that are not in use, one that takes least from the device: the smallest span that needs nothing
// from it, else with each piece that has no memory what is free before it. Looks at all such pieces; there is one at
// the end of the range, and those that were given back.
std::optional<TideAllocator::Run> TideAllocator::FindRun(const Request& request) const {
  const Range& range = *request.range;
  if (const auto span = range.spans.Find(request.size); span && Admits(request, span->first)) {
    return Run{span->first, 0};
  }
  std::optional<Run> best;
  for (const auto& [address, index] : range.unmapped) {
    const Index before = chunks_[index].previous;
    const Index first = chunks_.Is(before, State::kFree) ? range.spans.Around(chunks_, before).first : index;
    const std::optional<Run> run = RunFrom(first, request, best ? best->to_map : kTooLarge);
    if (run && Admits(request, first)) best = run;
  }
  return best ? best : FindFresh(request);
}

// Null: it is not long enough, or takes not less than that from the device.
std::optional<TideAllocator::Run> TideAllocator::RunFrom(Index first, const Request& request, Bytes less_than) const {
  const Range& range = *request.range;
  Run run{first, 0};
  Bytes left = request.size;
  for (Index index = first; left > 0;) {
    const Chunk& chunk = chunks_[index];
    Address end = chunk.end();
    if (chunk.state == State::kUnmapped) {
      const Bytes part = std::min(left, chunk.size);
      run.to_map += RoundUp(part, kPage);
      if (run.to_map >= less_than) return std::nullopt;
      left -= part;
      index = chunk.next;
    } else {
      end = range.spans.Around(chunks_, index).end;
      left -= static_cast<Bytes>(end - chunk.address);
      const auto behind = range.unmapped.find(end);
      index = behind == range.unmapped.end() ? kNone : behind->second;
    }
    if (left > 0 && !chunks_.Is(index, State::kFree) && !chunks_.Is(index, State::kUnmapped)) return std::nullopt;
  }
  return run;
}

// Pages of its own: the fewest that a job can be charged for.
std::optional<TideAllocator::Run> TideAllocator::FindFresh(const Request& request) const {
  for (const auto& [address, index] : request.range->unmapped) {
    if (chunks_[index].size < request.size) continue;
    if (!Admits(request, index)) return std::nullopt;
    return Run{index, RoundUp(request.size, kPage)};
  }
  return std::nullopt;
}

// Makes one chunk in hand out of the run, with memory behind all of it. False: the device refused some of it, and all
// is as before.
bool TideAllocator::Map(const Run& run, Bytes size) {
  std::vector<std::pair<Address, Bytes>> mapped;
  Bytes left = size;
  for (Index index = run.first; left > 0; index = At(index).next) {
    const Chunk& chunk = At(index);
    if (chunk.state == State::kUnmapped) {
      const Bytes part = RoundUp(std::min(left, chunk.size), kPage);
      if (!device_->Map(chunk.address, part)) {
        for (const auto& [address, bytes] : mapped) device_->Unmap(address, bytes);
        return false;
      }
      mapped.emplace_back(chunk.address, part);
    }
    left -= chunk.size;
  }
  for (const auto& [address, bytes] : mapped) usage_.Take(bytes);
  left = size;
  for (Index index = run.first; left > 0;) {
    const bool has_memory = At(index).state == State::kFree;
    Take(index);
    const Bytes part = RoundUp(std::min(left, At(index).size), kPage);
    if (!has_memory && part < At(index).size) Put(chunks_.SplitOff(index, part), State::kUnmapped);
    if (left < At(index).size) Put(chunks_.SplitOff(index, left), State::kFree);
    left -= At(index).size;
    const Index next = At(index).next;
    if (index != run.first) chunks_.Swallow(run.first, index);
    index = next;
  }
  return true;
}

// The host waits for all uses of free chunks. False: there are none.
bool TideAllocator::WaitForAll() {
  bool any = false;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    std::int64_t last = 0;
    for (const Waiting& one : streams_[i].waiting) last = std::max(last, one.position);
    if (last <= streams_[i].finished) continue;
    device_->HostWaits({StreamId(i), last});
    ++host_waits_;
    any = true;
  }
  Poll();
  return any;
}

// Whole pages of what nobody uses any more, of the largest chunks first.
void TideAllocator::GiveBack(Bytes at_least) {
  Poll();
  for (Range& range : ranges_) {
    if (!range.reserved) continue;
    std::vector<Index> clean;
    const TideBins& set = range.sets[kClean];
    for (Index index = set.Find(kPage); index != kNone; index = set.After(chunks_, index)) clean.push_back(index);
    for (; !clean.empty() && at_least > 0; clean.pop_back()) {
      Index index = clean.back();
      const Address first = RoundUp(static_cast<Bytes>(At(index).address), kPage),
                    last = At(index).end() / kPage * kPage;
      if (last <= first) continue;
      const Bytes given = std::min(static_cast<Bytes>(last - first), RoundUp(at_least, kPage));
      const Bytes to = static_cast<Bytes>(last - At(index).address), from = to - given;
      Take(index);
      if (to < At(index).size) Put(chunks_.SplitOff(index, to), State::kFree);
      if (from > 0) {
        const Index head = index;
        index = chunks_.SplitOff(head, from);
        Put(head, State::kFree);
      }
      device_->Unmap(At(index).address, given);
      usage_.Give(given);
      given_back_ += given;
      at_least -= given;
      Put(index, State::kUnmapped);
    }
  }
}

void TideAllocator::EmptyCache() {
  const std::lock_guard lock(lock_);
  GiveBack(kTooLarge);
}

}  // namespace ebbtide::tide
