// A schedule in time: the clocks of the streams, and the bytes held beside them.
#include "sim/simulate.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace ebbtide::sim {
namespace {

bool CopiesOut(const Stay& stay) { return stay.end == End::kCopyOut; }
bool CopiesIn(const Stay& stay) { return stay.begin == Begin::kCopyIn; }

Bytes HostPeak(const Workload& workload, const Schedule& schedule, const IdVector<StayId, Nanos>& queued,
               const IdVector<StayId, Nanos>& arrived) {
  // A copy holds host memory from the moment it is queued to the arrival of the last copy back that reads it; one that
  // nothing reads, to the end. `stays` has each storage's in order.
  struct Copy {
    Nanos from = -1, to = -1;
  };
  IdVector<StorageId, Copy> copies(workload.storages());
  std::vector<std::pair<Nanos, Bytes>> events;
  const auto close = [&](StorageId s) {
    Copy& copy = copies[s];
    if (copy.from >= 0) events.emplace_back(copy.from, workload.bytes[s]);
    if (copy.from >= 0 && copy.to >= 0) events.emplace_back(copy.to, -workload.bytes[s]);
    copy = {};
  };
  for (const StayId i : schedule.stays.ids()) {
    const Stay& stay = schedule.stays[i];
    if (CopiesIn(stay)) copies[stay.storage].to = arrived[i];
    if (!CopiesOut(stay)) continue;
    close(stay.storage);
    copies[stay.storage].from = queued[i];
  }
  for (const StorageId s : workload.storage_ids()) close(s);
  std::ranges::sort(events);
  Bytes held = 0, peak = 0;
  for (const auto& [at, bytes] : events) peak = std::max(peak, held += bytes);
  return peak;
}

}  // namespace

IdVector<StepId, Bytes> StepWorkspace(const Workload& workload, const Schedule& schedule) {
  const IdVector<StepId, bool> again = RunsAgain(workload, schedule);
  IdVector<StepId, Bytes> out(schedule.steps.size());
  for (const StepId k : out.ids()) out[k] = workload.workspace[schedule.steps[k]];
  // An op that runs again makes all that it makes: what begins no stay then is made beside, and thrown away.
  for (const StepId k : out.ids()) {
    if (!again[k]) continue;
    for (const StorageId s : workload.births[schedule.steps[k]]) out[k] += workload.bytes[s];
  }
  for (const Stay& stay : schedule.stays) {
    if (stay.begin == Begin::kRecompute) out[stay.from] -= workload.bytes[stay.storage];
  }
  return out;
}

IdVector<StepId, Bytes> StepBytes(const Workload& workload, const Schedule& schedule) {
  IdVector<StepId, Bytes> change(schedule.steps.size() + 1, 0);
  for (const Stay& stay : schedule.stays) {
    change[stay.from] += workload.bytes[stay.storage];
    change[stay.to] -= workload.bytes[stay.storage];
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  change.pop_back();
  const IdVector<StepId, Bytes> workspace = StepWorkspace(workload, schedule);
  for (const StepId k : change.ids()) change[k] += workspace[k];
  return change;
}

Bytes Height(const Workload& workload, const Schedule& schedule) {
  Bytes height = 0;
  for (const Stay& stay : schedule.stays) {
    const Bytes bytes = workload.bytes[stay.storage];
    if (bytes > 0) height = std::max(height, stay.address + bytes);
  }
  const IdVector<StepId, Bytes> workspace = StepWorkspace(workload, schedule);
  for (const StepId k : workspace.ids()) {
    if (workspace[k] > 0) height = std::max(height, schedule.workspace_address[k] + workspace[k]);
  }
  return height;
}

Outcome Simulate(const Workload& workload, const Schedule& schedule, const Link& link, const SimulateOptions& options) {
  Outcome out;
  const StepId end = schedule.steps.end_id();
  const Layout layout = MakeLayout(workload, schedule);
  // By stay: when its copy to the host is queued and done, and when its copy to the device is done; 0 without one.
  IdVector<StayId, Nanos> queued(schedule.stays.size(), 0), done(schedule.stays.size(), 0),
      arrived(schedule.stays.size(), 0);
  Nanos now = 0, out_free = 0, in_free = 0, exchange_free = 0;
  // By storage, of the communication stream: when it has written the contents, and when it is done with them.
  const std::size_t exchanged = workload.HasExchanges() ? workload.storages() : 0;
  IdVector<StorageId, Nanos> written(exchanged, 0), used(exchanged, 0);
  if (options.keep_timeline && exchanged > 0) out.used.resize(schedule.stays.size(), 0);
  const auto log = [&](Stream stream, Nanos begin, Nanos until, OpId op, StorageId storage, bool repeated) {
    if (options.keep_timeline) out.timeline.push_back({stream, begin, until, op, storage, repeated});
  };
  for (StepId k(0); k <= end; ++k) {
    if (options.keep_timeline) out.boundary.push_back(now);
    for (const StayId i : layout.leaving[k]) {
      const StorageId s = schedule.stays[i].storage;
      const Nanos begin = std::max({out_free, now, exchanged > 0 ? written[s] : 0});
      queued[i] = now;
      done[i] = out_free = begin + link.TimeOut(workload.bytes[s]);
      out.copied_out += workload.bytes[s];
      log(Stream::kToHost, begin, out_free, OpId(), s, false);
    }
    Nanos released = now;
    for (const StayId i : layout.ending[k]) released = std::max(released, done[i]);
    out.wait_for_memory += released - now;
    now = released;
    if (exchanged > 0) {
      for (const StayId i : layout.ending[k]) {
        released = std::max(released, used[schedule.stays[i].storage]);
        if (options.keep_timeline) out.used[i] = used[schedule.stays[i].storage];
      }
      out.wait_for_ranks += released - now;
      now = released;
    }
    if (options.keep_timeline) out.released.push_back(now);
    for (const StayId i : layout.entering[k]) {
      const StorageId s = schedule.stays[i].storage;
      const Nanos begin = std::max(in_free, now);
      arrived[i] = in_free = begin + link.TimeIn(workload.bytes[s]);
      out.copied_in += workload.bytes[s];
      log(Stream::kToDevice, begin, in_free, OpId(), s, false);
    }
    if (k == end) break;
    const OpId op = schedule.steps[k];
    Nanos ready = now;
    for (const StayId i : layout.arrivals[k]) ready = std::max(ready, arrived[i]);
    out.wait_for_data += ready - now;
    if (workload.RunsBeside(op)) {
      now = ready;
      for (const StorageId s : workload.needs[op]) ready = std::max(ready, written[s]);
      Nanos begin = std::max(ready, exchange_free);
      if (workload.exchanges_use_host_link) begin = std::max({begin, out_free, in_free});
      exchange_free = begin + workload.exchange[op];
      if (workload.exchanges_use_host_link) out_free = in_free = exchange_free;
      out.exchange += workload.exchange[op];
      log(Stream::kExchange, begin, exchange_free, op, StorageId(), layout.again[k]);
      if (layout.again[k]) {
        out.recompute += exchange_free - now;
        now = exchange_free;
        continue;
      }
      for (const StorageId s : workload.needs[op]) used[s] = exchange_free;
      for (const StorageId s : workload.births[op]) used[s] = written[s] = exchange_free;
      for (const StorageId s : workload.changes[op]) written[s] = exchange_free;
      continue;
    }
    if (exchanged > 0) {
      const Nanos data = ready;
      for (const StorageId s : workload.needs[op]) ready = std::max(ready, written[s]);
      for (const StorageId s : workload.changes[op]) ready = std::max(ready, used[s]);
      out.wait_for_ranks += ready - data;
    }
    now = ready + workload.time[op];
    if (layout.again[k]) out.recompute += workload.time[op];
    log(Stream::kCompute, ready, now, op, StorageId(), layout.again[k]);
  }
  out.time = std::max({now, out_free, in_free, exchange_free});
  out.drain = out.time - now;
  const IdVector<StepId, Bytes> bytes = StepBytes(workload, schedule);
  if (!bytes.empty()) out.peak = *std::ranges::max_element(bytes);
  out.host_peak = HostPeak(workload, schedule, queued, arrived);
  if (options.keep_timeline) out.left = std::move(done);
  return out;
}

}  // namespace ebbtide::sim
