#include "sim/simulate.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace ebbtide::sim {
namespace {

// Stays by the boundary at which something happens to them.
class ByBoundary {
 public:
  explicit ByBoundary(std::size_t boundaries) : begin_(boundaries + 1, 0) {}
  void Count(Index boundary) { ++begin_[boundary + 1]; }
  void Close() {
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    next_.assign(begin_.begin(), begin_.end() - 1);
    stays_.resize(begin_.back());
  }
  void Put(Index boundary, Index stay) { stays_[next_[boundary]++] = stay; }
  std::span<Index> At(Index boundary) {
    return {stays_.data() + begin_[boundary], stays_.data() + begin_[boundary + 1]};
  }

 private:
  std::vector<Index> begin_, next_, stays_;
};

template <class Has, class Boundary>
ByBoundary Sort(const Schedule& schedule, Has has, Boundary boundary) {
  ByBoundary out(schedule.steps.size() + 1);
  for (const Stay& stay : schedule.stays) {
    if (has(stay)) out.Count(boundary(stay));
  }
  out.Close();
  for (Index i = 0; i < schedule.stays.size(); ++i) {
    if (has(schedule.stays[i])) out.Put(boundary(schedule.stays[i]), i);
  }
  return out;
}

bool CopiesOut(const Stay& stay) { return stay.end == End::kCopyOut; }
bool CopiesIn(const Stay& stay) { return stay.begin == Begin::kCopyIn; }

Bytes HostPeak(const Workload& workload, const Schedule& schedule, const std::vector<Nanos>& queued,
               const std::vector<Nanos>& arrived) {
  // A copy holds host memory from the moment it is queued to the arrival of the last copy back that reads it; one that
  // nothing reads, to the end. `stays` has each storage's in order.
  struct Copy {
    Nanos from = -1, to = -1;
  };
  std::vector<Copy> copies(workload.storages());
  std::vector<std::pair<Nanos, Bytes>> events;
  const auto close = [&](Index s) {
    Copy& copy = copies[s];
    if (copy.from >= 0) events.emplace_back(copy.from, workload.bytes[s]);
    if (copy.from >= 0 && copy.to >= 0) events.emplace_back(copy.to, -workload.bytes[s]);
    copy = {};
  };
  for (std::size_t i = 0; i < schedule.stays.size(); ++i) {
    const Stay& stay = schedule.stays[i];
    if (CopiesIn(stay)) copies[stay.storage].to = arrived[i];
    if (!CopiesOut(stay)) continue;
    close(stay.storage);
    copies[stay.storage].from = queued[i];
  }
  for (Index s = 0; s < workload.storages(); ++s) close(s);
  std::ranges::sort(events);
  Bytes held = 0, peak = 0;
  for (const auto& [at, bytes] : events) peak = std::max(peak, held += bytes);
  return peak;
}

}  // namespace

std::vector<bool> RunsAgain(const Workload& workload, const Schedule& schedule) {
  std::vector<bool> ran(workload.ops(), false), again(schedule.steps.size(), false);
  for (std::size_t k = 0; k < schedule.steps.size(); ++k) {
    again[k] = ran[schedule.steps[k]];
    ran[schedule.steps[k]] = true;
  }
  return again;
}

std::vector<Index> NextNeeds(const Workload& workload, const Schedule& schedule, const std::vector<bool>& again) {
  // The first op not yet run at each boundary.
  std::vector<Index> next_op(schedule.steps.size() + 1, static_cast<Index>(workload.ops()));
  for (std::size_t k = schedule.steps.size(); k-- > 0;) {
    next_op[k] = again[k] ? next_op[k + 1] : schedule.steps[k];
  }
  std::vector<Index> out(schedule.stays.size(), kNone);
  for (std::size_t i = 0; i < schedule.stays.size(); ++i) {
    const Stay& stay = schedule.stays[i];
    if (!CopiesIn(stay)) continue;
    const auto uses = workload.uses[stay.storage];
    const auto use = std::ranges::lower_bound(uses, next_op[stay.from]);
    if (use != uses.end()) out[i] = *use;
  }
  return out;
}

std::vector<Bytes> StepWorkspace(const Workload& workload, const Schedule& schedule) {
  const std::vector<bool> again = RunsAgain(workload, schedule);
  std::vector<Bytes> out(schedule.steps.size());
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = workload.workspace[schedule.steps[k]];
  // An op that runs again makes all that it makes: what begins no stay then is made beside, and thrown away.
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (!again[k]) continue;
    for (const Index s : workload.births[schedule.steps[k]]) out[k] += workload.bytes[s];
  }
  for (const Stay& stay : schedule.stays) {
    if (stay.begin == Begin::kRecompute) out[stay.from] -= workload.bytes[stay.storage];
  }
  return out;
}

std::vector<Bytes> StepBytes(const Workload& workload, const Schedule& schedule) {
  std::vector<Bytes> change(schedule.steps.size() + 1, 0);
  for (const Stay& stay : schedule.stays) {
    change[stay.from] += workload.bytes[stay.storage];
    change[stay.to] -= workload.bytes[stay.storage];
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  change.pop_back();
  const std::vector<Bytes> workspace = StepWorkspace(workload, schedule);
  for (std::size_t k = 0; k < change.size(); ++k) change[k] += workspace[k];
  return change;
}

Bytes Height(const Workload& workload, const Schedule& schedule) {
  Bytes height = 0;
  for (const Stay& stay : schedule.stays) {
    const Bytes bytes = workload.bytes[stay.storage];
    if (bytes > 0) height = std::max(height, stay.address + bytes);
  }
  const std::vector<Bytes> workspace = StepWorkspace(workload, schedule);
  for (std::size_t k = 0; k < workspace.size(); ++k) {
    if (workspace[k] > 0) height = std::max(height, schedule.workspace_address[k] + workspace[k]);
  }
  return height;
}

Outcome Simulate(const Workload& workload, const Schedule& schedule, const Link& link, const SimulateOptions& options) {
  Outcome out;
  const Index steps = static_cast<Index>(schedule.steps.size());
  ByBoundary leaving = Sort(schedule, CopiesOut, [](const Stay& s) { return s.leave; });
  ByBoundary ending = Sort(schedule, CopiesOut, [](const Stay& s) { return s.to; });
  ByBoundary entering = Sort(schedule, CopiesIn, [](const Stay& s) { return s.from; });
  const std::vector<bool> again = RunsAgain(workload, schedule);
  const std::vector<Index> next_need = NextNeeds(workload, schedule, again);
  std::vector<Nanos> queued(schedule.stays.size(), 0), done(schedule.stays.size(), 0),
      arrived(schedule.stays.size(), 0);
  std::vector<Nanos> arrival(workload.storages(), 0);  // of the copy-in that nobody has waited for yet
  Nanos now = 0, out_free = 0, in_free = 0;
  const auto log = [&](Stream stream, Nanos begin, Nanos until, Index op, Index storage, bool repeated) {
    if (options.keep_timeline) out.timeline.push_back({stream, begin, until, op, storage, repeated});
  };
  for (Index k = 0; k <= steps; ++k) {
    if (options.keep_timeline) out.boundary.push_back(now);
    auto leavers = leaving.At(k);
    std::ranges::sort(leavers, {},
                      [&](Index i) { return std::pair(schedule.stays[i].turn, schedule.stays[i].storage); });
    for (const Index i : leavers) {
      const Index s = schedule.stays[i].storage;
      const Nanos begin = std::max(out_free, now);
      queued[i] = now;
      done[i] = out_free = begin + link.TimeOut(workload.bytes[s]);
      out.copied_out += workload.bytes[s];
      log(Stream::kToHost, begin, out_free, kNone, s, false);
    }
    Nanos released = now;
    for (const Index i : ending.At(k)) released = std::max(released, done[i]);
    out.wait_for_memory += released - now;
    now = released;
    if (options.keep_timeline) out.released.push_back(now);
    auto comers = entering.At(k);
    std::ranges::sort(comers, {}, [&](Index i) { return std::pair(next_need[i], schedule.stays[i].storage); });
    for (const Index i : comers) {
      const Index s = schedule.stays[i].storage;
      const Nanos begin = std::max(in_free, now);
      arrived[i] = arrival[s] = in_free = begin + link.TimeIn(workload.bytes[s]);
      out.copied_in += workload.bytes[s];
      log(Stream::kToDevice, begin, in_free, kNone, s, false);
    }
    if (k == steps) break;
    const Index op = schedule.steps[k];
    Nanos ready = now;
    for (const Index s : workload.needs[op]) ready = std::max(ready, arrival[s]);
    out.wait_for_data += ready - now;
    now = ready + workload.time[op];
    if (again[k]) out.recompute += workload.time[op];
    log(Stream::kCompute, ready, now, op, kNone, again[k]);
  }
  out.time = std::max({now, out_free, in_free});
  out.drain = out.time - now;
  const std::vector<Bytes> bytes = StepBytes(workload, schedule);
  if (!bytes.empty()) out.peak = *std::ranges::max_element(bytes);
  out.host_peak = HostPeak(workload, schedule, queued, arrived);
  if (options.keep_timeline) out.left = std::move(done);
  return out;
}

}  // namespace ebbtide::sim
