// How a request is met: classes in their order, waits for uses, quotas. Free chunks are in free.cc, pages in grow.cc.
#include "tide/tide.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ebbtide::tide {
namespace {

constexpr Bytes kStep = TideBins::kStep;
constexpr Bytes kSmall = kMiB;
constexpr Bytes kLargestRequest = Bytes{1} << 40;
constexpr Bytes kHuge = 64 * kMiB, kManyTimes = 4;  // see Fit in the header
constexpr int kLooks = 8;                           // chunks that are looked at for one that is ordered
constexpr int kMostUses = 64;                       // of a chunk that are looked at for that
constexpr std::int32_t kLastJob = std::numeric_limits<std::int16_t>::max();

}  // namespace

TideAllocator::TideAllocator(DeviceMemory& device, Streams& streams)
    : model_(std::make_shared<ModelTideDevice>(device, streams)), device_(model_.get()) {}

std::unique_ptr<Allocator> TideAllocator::CloneOnto(DeviceMemory& device, Streams& streams) const {
  auto clone = std::make_unique<TideAllocator>(*this);
  clone->model_ = std::make_shared<ModelTideDevice>(device, streams);
  clone->device_ = clone->model_.get();
  return clone;
}

TideAllocator::Counts& TideAllocator::CountsOf(JobId job) {
  const std::size_t index = static_cast<std::size_t>(job.value + 1);
  if (index >= job_counts_.size()) job_counts_.resize(index + 1);
  return job_counts_[index];
}

// ---- Meeting requests

std::optional<Block> TideAllocator::Allocate(Bytes bytes, StreamId stream, JobId job) {
  const std::lock_guard lock(lock_);
  const auto fail = [&]() -> std::optional<Block> {
    ++usage_.out_of_memory;
    ++CountsOf(job).out_of_memory;
    return std::nullopt;
  };
  if (job.value > kLastJob) job = JobId();
  if (bytes < 0 || bytes > kLargestRequest) return fail();
  const Bytes size = RoundUp(std::max<Bytes>(bytes, 1), kStep);
  const bool large = size > kSmall;
  Request request{.size = size, .stream = stream, .job = job, .range = &ranges_[large], .met = kGrown};
  At(stream);
  if (!request.range->reserved && !Reserve(*request.range, large)) return fail();
  Index index = Find(request);
  if (index != kNone && Admits(request, index)) {
    Take(index);
  } else {
    index = Grow(request);
  }
  if (index == kNone) return fail();
  return Hand(index, request);
}

bool TideAllocator::Admits(const Request& request, Index index) const {
  return !quotas_.active() || quotas_.Admits(request.job, chunks_[index].address, request.size);
}

// Whether the stream may have the chunk's first bytes without a wait.
bool TideAllocator::IsOrdered(Index index, const Request& request) {
  const Stream& own = At(request.stream);
  bool ordered = true;
  int looks = kMostUses;
  chunks_.ForUses(index, request.size, [&](const Event& use) {
    const bool is_known = use.stream.index() < own.known.size() && own.known[use.stream.index()] >= use.position;
    ordered = --looks >= 0 && (use.stream == request.stream || IsOver(use) || is_known);
    return ordered;
  });
  return ordered;
}

// None of the first three classes costs time, so the smallest chunk of all is taken; of several, that of the first
// class.
TideAllocator::Index TideAllocator::Find(Request& request) {
  Range& range = *request.range;
  const std::size_t own = kFirstStream + request.stream.index();
  request.met = kSameStream;
  Index best = own < range.sets.size() ? range.sets[own].Find(request.size) : kNone;
  if (best != kNone && At(best).size == request.size) return best;  // nothing fits better: no need to ask the device
  Poll();
  best = own < range.sets.size() ? range.sets[own].Find(request.size) : kNone;
  if (const Index ordered = FindOrdered(request, best); ordered != kNone) {
    best = ordered;
    request.met = kOrdered;
  }
  const Index clean = range.sets[kClean].Find(request.size);
  if (clean != kNone && (best == kNone || At(clean).size < At(best).size)) {
    best = clean;
    request.met = kCompleted;
  }
  if (best == kNone) {
    best = FindScheduled(request);
    request.met = kScheduled;
  }
  const bool breaks = best != kNone && request.size >= kHuge && chunks_.FirstPart(best) >= kManyTimes * request.size &&
                      !request.may_break;
  return breaks ? kNone : best;
}

// One that is smaller than `best`. Only streams that the requesting one has waited for, and that have not got that far
// yet, can have any; what is finished is found elsewhere.
TideAllocator::Index TideAllocator::FindOrdered(const Request& request, Index best) {
  const Range& range = *request.range;
  const std::vector<std::int64_t>& known = At(request.stream).known;
  Index found = kNone;
  int looks = kLooks;
  const auto look = [&](const TideBins& bins) {
    for (Index one = bins.Find(request.size); one != kNone && looks > 0; one = bins.After(chunks_, one), --looks) {
      if (best != kNone && At(one).size >= At(best).size) return;
      if (!IsOrdered(one, request)) continue;
      best = found = one;
      return;
    }
  };
  if (!range.sets[kMixed].empty()) look(range.sets[kMixed]);
  for (std::size_t other = 0; other < known.size() && kFirstStream + other < range.sets.size(); ++other) {
    if (known[other] > streams_[other].finished) look(range.sets[kFirstStream + other]);
  }
  return found;
}

TideAllocator::Index TideAllocator::FindScheduled(const Request& request) const {
  const Range& range = *request.range;
  Index best = kNone;
  for (std::size_t set = kMixed; set < range.sets.size(); ++set) {
    const Index one = range.sets[set].Find(request.size);
    if (one != kNone && (best == kNone || chunks_[one].size < chunks_[best].size)) best = one;
  }
  return best;
}

void TideAllocator::Ordered(StreamId stream, const Event& event) {
  const std::lock_guard lock(lock_);
  At(event.stream);
  Know(stream, event);
}

void TideAllocator::Know(StreamId stream, const Event& event) {
  std::vector<std::int64_t>& known = At(stream).known;
  if (event.stream.index() >= known.size()) known.resize(event.stream.index() + 1, 0);
  known[event.stream.index()] = std::max(known[event.stream.index()], event.position);
}

// Makes the stream wait for the uses of the first bytes of the chunk that it is not ordered after: of each other stream
// for the last of them. How many waits that took.
std::int64_t TideAllocator::WaitFor(Index index, const Request& request) {
  bool any = false;
  chunks_.ForUses(index, request.size, [&](const Event& use) {
    if (use.stream == request.stream || IsOver(use)) return true;
    std::int64_t& needed = streams_[use.stream.index()].needed;
    needed = std::max(needed, use.position);
    any = true;
    return true;
  });
  std::int64_t waits = 0;
  for (std::size_t other = 0; any && other < streams_.size(); ++other) {
    const Event last{StreamId(other), std::exchange(streams_[other].needed, 0)};
    const std::vector<std::int64_t>& known = At(request.stream).known;
    if (last.position == 0 || (other < known.size() && known[other] >= last.position)) continue;
    ++waits;
    device_->StreamWaits(request.stream, last);
    Know(request.stream, last);
  }
  return waits;
}

// The chunk is in no set.
Block TideAllocator::Hand(Index index, const Request& request) {
  const std::int64_t waits = WaitFor(index, request);
  if (At(index).size > request.size) Put(chunks_.SplitOff(index, request.size), State::kFree);
  chunks_.DropParts(index);
  Chunk& chunk = At(index);
  chunk.stream = request.stream;
  chunk.job = static_cast<std::int16_t>(request.job.value);
  ++chunk.number;
  if (quotas_.active()) quotas_.Charge(request.job, chunk.address, chunk.size);
  usage_.Allocate(chunk.size);
  Counts& counts = CountsOf(request.job);
  ++counts.met[request.met];
  counts.met_bytes[request.met] += chunk.size;
  counts.waits += waits;
  counts.allocated += chunk.size;
  counts.allocated_peak = std::max(counts.allocated_peak, counts.allocated);
  device_->Handed(chunk.address, chunk.size, request.stream);
  return {BlockId(static_cast<std::size_t>(index)), chunk.address, chunk.size};
}

// ---- Quotas and statistics

Status TideAllocator::SetCapacity(Bytes capacity) {
  const std::lock_guard lock(lock_);
  Count();
  return quotas_.SetCapacity(capacity);
}

Status TideAllocator::SetQuota(JobId job, const Quota& quota) {
  const std::lock_guard lock(lock_);
  if (!job.valid() || job.value > kLastJob) return Fail("quota of job {}: expected 0 to {}", job.value, kLastJob);
  Count();
  return quotas_.Set(job, quota);
}

// From now on pages are charged to jobs, also those of the blocks that are there.
void TideAllocator::Count() {
  if (quotas_.active()) return;
  quotas_.Activate(device_->total());
  for (std::size_t i = 0; i < chunks_.slots(); ++i) {
    const Chunk& chunk = chunks_[static_cast<Index>(i)];
    if (chunk.size == 0 || chunk.state != State::kInHand) continue;
    quotas_.Charge(JobOf(chunk), chunk.address, chunk.size);
  }
}

TideAllocator::Statistics TideAllocator::statistics() const {
  const std::lock_guard lock(lock_);
  Statistics out;
  out.allocated_peak = usage_.allocated_peak;
  out.reserved = usage_.reserved;
  out.reserved_peak = usage_.reserved_peak;
  out.given_back = given_back_;
  out.host_waits = host_waits_;
  for (std::size_t i = 0; i < job_counts_.size(); ++i) {
    const Counts& its = job_counts_[i];
    for (int c = 0; c < kClasses; ++c) {
      out.met[c] += its.met[c];
      out.met_bytes[c] += its.met_bytes[c];
    }
    out.allocated += its.allocated;
    out.waits += its.waits;
    out.out_of_memory += its.out_of_memory;
    if (i == 0) continue;
    const JobId id(i - 1);
    JobCounts& job = out.jobs[id];
    static_cast<Counts&>(job) = its;
    job.quota = quotas_.quota(id);
    job.charged = quotas_.charged(id);
  }
  return out;
}

}  // namespace ebbtide::tide
