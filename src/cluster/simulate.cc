// The events of a cluster: arrivals, ends, errors, and moments from which a GPU may be looked at again.
#include "cluster/simulate.h"

#include <algorithm>
#include <cassert>

#include "cluster/simulation.h"

namespace ebbtide::cluster {
namespace {

// Work that is left over by rounding.
constexpr double kNothing = 1e-9;
// Seconds: what rounding tells apart is one moment, to those who run and to those who look ahead.
constexpr double kSameMoment = 1e-6;
constexpr std::int64_t kEventsBetweenStops = 256;

}  // namespace

Simulation::Simulation(const Hardware& hardware, const Workload& workload, Policy& policy,
                       const SimulateOptions& options)
    : state_(hardware, workload),
      policy_(&policy),
      options_(options),
      waiting_(workload.kinds.size()),
      scores_(workload.kinds.size()),
      running_(workload.jobs.size()),
      first_start_(workload.jobs.size(), -1) {
  ways_ = policy.Ways();
  if (ways_.empty()) ways_ = {&policy};
  GoBy(0);
}

Outcome Simulation::Execute() {
  for (std::int64_t count = 0; next_ < state_.workload.jobs.size() || !events_.empty(); ++count) {
    if (count % kEventsBetweenStops == 0 && options_.stop && options_.stop()) return {.stopped = true, .runs = {}};
    Advance();
  }
  return Summary();
}

void Simulation::Advance() {
  const std::vector<Job>& jobs = state_.workload.jobs;
  const double arrival = next_ < jobs.size() ? jobs[next_].arrival : kForever;
  state_.now = std::min(arrival, events_.empty() ? kForever : events_.top().at);
  while (!events_.empty() && events_.top().at <= state_.now + kSameMoment) {
    const Event event = events_.top();
    events_.pop();
    Handle(event);
  }
  for (; next_ < jobs.size() && jobs[next_].arrival <= state_.now; ++next_) Arrive(next_);
  ChooseWay();
  Schedule();
}

void Simulation::Arrive(std::size_t job) {
  const std::size_t kind = state_.workload.jobs[job].kind;
  if (policy_->RefusesTooLarge() && !FitsSomewhere(kind, &OnGpu::estimate)) {
    ++out_.refused;
    return;
  }
  waiting_.Add(kind, job);
}

void Simulation::Handle(const Event& event) {
  if (event.kind == EventKind::kSettled) return Left(event.id);
  if (event.kind == EventKind::kError) {
    const std::size_t kind = state_.workload.jobs[event.id].kind;
    if (FitsSomewhere(kind, &OnGpu::memory)) {
      again_.push_back(event.id);
    } else {
      ++out_.refused;
    }
    return;
  }
  if (running_[event.id].version == event.version) End(event.id);
}

bool Simulation::FitsSomewhere(std::size_t number, Bytes OnGpu::*need) const {
  const Kind& kind = state_.kind(number);
  if (kind.by_share()) return true;
  return std::ranges::any_of(state_.hardware.nodes, [&](const Node& node) {
    return node.gpus >= kind.gpus && kind.on[node.type].*need <= state_.hardware.types[node.type].memory;
  });
}

void Simulation::Start(std::size_t job, std::size_t node, const std::vector<std::size_t>& gpus, bool alone) {
  const std::size_t kind = state_.workload.jobs[job].kind;
  if (first_start_[job] < 0) first_start_[job] = state_.now;
  const bool oom = !alone && RunsOut(kind, gpus);
  if (options_.keep_runs) out_.runs.push_back({job, gpus, state_.now, state_.now, oom});
  if (oom) {
    ++out_.oom;
    if (options_.keep_runs) out_.runs.back().end += options_.oom_seconds;
    events_.push({state_.now + options_.oom_seconds, EventKind::kError, job, 0});
    return;
  }
  ++running_count_;
  Running& run = running_[job];
  run = {.gpus = gpus,
         .left = state_.workload.jobs[job].work,
         .rate = state_.kind(kind).by_share() ? 1.0 : 0.0,
         .since = state_.now,
         .begin = state_.now,
         .node = node,
         .version = run.version,
         .alone = alone,
         .run = out_.runs.size() - 1};
  NodeState& host = state_.nodes[node];
  host.cpu_free -= state_.kind(kind).cpu_milli;
  host.memory_free -= state_.kind(kind).memory_mib;
  for (const std::size_t number : gpus) Occupy(number, job, kind, alone);
  for (const std::size_t number : gpus) Speeds(number);
  if (gpus.empty() || state_.kind(kind).by_share()) Expect(job);
  Changed(node);
  if (policy_->SettleSeconds() > 0 && !gpus.empty()) {
    events_.push({state_.now + policy_->SettleSeconds(), EventKind::kSettled, node, 0});
  }
}

bool Simulation::RunsOut(std::size_t kind, const std::vector<std::size_t>& gpus) const {
  if (state_.kind(kind).by_share() || believed_) return false;
  return std::ranges::any_of(gpus, [&](std::size_t number) {
    const Gpu& gpu = state_.gpus[number];
    const Bytes memory = state_.on(kind, gpu).memory;
    const std::optional<Bytes> limit = policy_->Limit(state_, gpu, kind);
    return gpu.taken + memory > state_.memory(gpu) || (limit && memory > *limit);
  });
}

void Simulation::Occupy(std::size_t number, std::size_t job, std::size_t kind, bool alone) {
  Gpu& gpu = state_.gpus[number];
  Slot slot{.job = job, .kind = kind, .milli = MilliOf(state_, gpu, kind)};
  if (!state_.kind(kind).by_share()) {
    slot.memory = state_.on(kind, gpu).memory;
    slot.reserved = policy_->Reserve(state_, gpu, kind);
  }
  gpu.taken += slot.memory;
  gpu.reserved += slot.reserved;
  gpu.milli_free -= slot.milli;
  gpu.closed = alone;
  gpu.settled_at = state_.now + policy_->SettleSeconds();
  gpu.slots.push_back(slot);
  assert(believed_ || gpu.taken <= state_.memory(gpu));
  out_.most_memory = std::max(out_.most_memory, gpu.taken);
  out_.most_together = std::max(out_.most_together, static_cast<std::int64_t>(gpu.slots.size()));
  asked_ += std::min(slot.milli, kWholeGpu);
  most_asked_ = std::max(most_asked_, asked_);
}

void Simulation::End(std::size_t job) {
  Running& run = running_[job];
  const std::size_t kind = state_.workload.jobs[job].kind;
  ++run.version;
  --running_count_;
  NodeState& host = state_.nodes[run.node];
  host.cpu_free += state_.kind(kind).cpu_milli;
  host.memory_free += state_.kind(kind).memory_mib;
  for (const std::size_t number : run.gpus) {
    Gpu& gpu = state_.gpus[number];
    const auto slot = std::ranges::find(gpu.slots, job, &Slot::job);
    gpu.taken -= slot->memory;
    gpu.reserved -= slot->reserved;
    gpu.milli_free += slot->milli;
    asked_ -= std::min(slot->milli, kWholeGpu);
    gpu.slots.erase(slot);
    if (run.alone) gpu.closed = false;
  }
  for (const std::size_t number : run.gpus) Speeds(number);
  if (options_.keep_runs) out_.runs[run.run].end = state_.now;
  ++out_.ended;
  out_.gpu_seconds += state_.workload.jobs[job].work * state_.kind(kind).gpus;
  completion_ += state_.now - state_.workload.jobs[job].arrival;
  last_end_ = state_.now;
  Left(run.node);
}

void Simulation::Speeds(std::size_t number) {
  Gpu& gpu = state_.gpus[number];
  in_use_ += gpu_busy_sum_ * (state_.now - in_use_at_);
  in_use_at_ = state_.now;
  const Mix& mix = state_.MixOn(gpu);
  double busy = mix.busy;
  for (Slot& slot : gpu.slots) {
    if (state_.kind(slot.kind).by_share()) {
      busy += static_cast<double>(slot.milli) / kWholeGpu;
    } else {
      slot.rate = mix.RateOf(slot.kind);
    }
  }
  gpu_busy_sum_ += busy - gpu.busy;
  gpu.busy = busy;
  for (const Slot& slot : gpu.slots) {
    if (!state_.kind(slot.kind).by_share()) Expect(slot.job);
  }
}

void Simulation::Expect(std::size_t job) {
  Running& run = running_[job];
  const std::size_t kind = state_.workload.jobs[job].kind;
  double rate = kForever;
  if (state_.kind(kind).by_share()) {
    rate = 1;
  } else {
    for (const std::size_t number : run.gpus) {
      const Gpu& gpu = state_.gpus[number];
      const auto slot = std::ranges::find(gpu.slots, job, &Slot::job);
      rate = std::min(rate, slot->rate * state_.on(kind, gpu).speed);
    }
  }
  run.left -= run.rate * (state_.now - run.since);
  if (run.left < kNothing) run.left = 0;
  run.since = state_.now;
  run.rate = rate;
  ++run.version;
  if (!options_.endless) events_.push({state_.now + run.left / rate, EventKind::kEnd, job, run.version});
}

Outcome Simulation::Summary() {
  const std::vector<Job>& jobs = state_.workload.jobs;
  const double first = jobs.empty() ? 0 : jobs.front().arrival;
  const double end = options_.endless ? state_.now : last_end_;
  out_.makespan = std::max(0.0, end - first);
  in_use_ += gpu_busy_sum_ * std::max(0.0, end - in_use_at_);
  const auto gpus = static_cast<double>(std::max<std::int64_t>(1, state_.hardware.gpus()));
  out_.utilisation = out_.makespan > 0 ? in_use_ / (gpus * out_.makespan) : 0;
  out_.allocation = static_cast<double>(most_asked_) / (gpus * kWholeGpu);
  std::int64_t started = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (first_start_[i] < 0) continue;
    ++started;
    out_.mean_wait += first_start_[i] - jobs[i].arrival;
  }
  if (started > 0) out_.mean_wait /= static_cast<double>(started);
  if (out_.ended > 0) out_.mean_completion = completion_ / static_cast<double>(out_.ended);
  out_.waiting = static_cast<std::int64_t>(waiting_.count() + again_.size());
  return std::move(out_);
}

Outcome Simulate(const Hardware& hardware, const Workload& workload, Policy& policy, const SimulateOptions& options) {
  return Simulation(hardware, workload, policy, options).Execute();
}

}  // namespace ebbtide::cluster
