// The events of a cluster: arrivals, ends, errors, and moments from which a GPU may be looked at again.
#include "cluster/simulate.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <deque>
#include <numeric>
#include <queue>
#include <tuple>

#include "cluster/waiting.h"

namespace ebbtide::cluster {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
// Work that is left over by rounding.
constexpr double kNothing = 1e-9;
// Where a GPU is to be kept for a job, so many nodes are looked at.
constexpr std::size_t kMostNodesLookedAt = 256;
constexpr std::int64_t kEventsBetweenStops = 256;

enum class EventKind : std::uint8_t { kEnd, kError, kSettled };
struct Event {
  double at = 0;
  EventKind kind = EventKind::kEnd;
  std::size_t id = 0;         // of a job, or a node
  std::uint32_t version = 0;  // of the job's speed: an event of an older one is void

  auto Order() const { return std::tuple(at, kind, id, version); }
  friend bool operator>(const Event& a, const Event& b) { return a.Order() > b.Order(); }
};

struct Running {
  std::vector<std::size_t> gpus;
  double left = 0;   // of its work, seconds alone
  double rate = 0;   // of them, per second
  double since = 0;  // when `left` was that
  double begin = 0;
  std::size_t node = 0;
  std::uint32_t version = 0;
  bool alone = false;
  std::size_t run = 0;
};

// By the policy's rank, then by arrival.
std::vector<std::size_t> RanksOf(const Workload& workload, const Policy& policy) {
  std::vector<std::size_t> order(workload.jobs.size()), ranks(workload.jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t job) { return policy.Rank(workload.jobs[job]); });
  for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = i;
  return ranks;
}

class Simulation {
 public:
  Simulation(const Hardware& hardware, const Workload& workload, Policy& policy, const SimulateOptions& options)
      : state_(hardware, workload),
        policy_(policy),
        options_(options),
        waiting_(workload.kinds.size(), RanksOf(workload, policy)),
        scores_(workload.kinds.size()),
        running_(workload.jobs.size()),
        first_start_(workload.jobs.size(), -1) {}

  Outcome Execute() {
    const std::vector<Job>& jobs = state_.workload.jobs;
    std::size_t next = 0;
    for (std::int64_t count = 0; next < jobs.size() || !events_.empty(); ++count) {
      if (count % kEventsBetweenStops == 0 && options_.stop && options_.stop()) return {.stopped = true, .runs = {}};
      const double arrival = next < jobs.size() ? jobs[next].arrival : kForever;
      state_.now = std::min(arrival, events_.empty() ? kForever : events_.top().at);
      while (!events_.empty() && events_.top().at <= state_.now) {
        const Event event = events_.top();
        events_.pop();
        Handle(event);
      }
      for (; next < jobs.size() && jobs[next].arrival <= state_.now; ++next) Arrive(next);
      Schedule();
    }
    return Summary();
  }

 private:
  // ---- What happens
  void Arrive(std::size_t job) {
    const std::size_t kind = state_.workload.jobs[job].kind;
    if (policy_.RefusesTooLarge() && !FitsSomewhere(kind, &OnGpu::estimate)) {
      ++out_.refused;
      return;
    }
    waiting_.Add(kind, job);
  }

  void Handle(const Event& event) {
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

  bool FitsSomewhere(std::size_t number, Bytes OnGpu::*need) const {
    const Kind& kind = state_.kind(number);
    if (kind.by_share()) return true;
    return std::ranges::any_of(state_.hardware.nodes, [&](const Node& node) {
      return node.gpus >= kind.gpus && kind.on[node.type].*need <= state_.hardware.types[node.type].memory;
    });
  }

  // ---- Who runs next
  void Schedule() {
    StartAgain();
    if (policy_.InOrder()) {
      while (again_.empty() && !waiting_.empty() && TryKind(waiting_.order().begin()->second)) continue;
      return;
    }
    KeepForFirst();
    // Each success changes the order; kinds that were looked at in vain are passed over.
    for (bool any = true; any;) {
      any = false;
      for (const auto& [rank, kind] : waiting_.order()) {
        if (waiting_.looked(kind) == left_.size()) continue;
        if (!TryKind(kind)) continue;
        any = true;
        break;
      }
    }
    KeepForFirst();
  }

  // The first job of the kind, to the best place there is for it. False where there is none.
  bool TryKind(std::size_t kind) {
    const std::size_t job = waiting_.First(kind);
    const bool kept = job == kept_for_;
    if (kept) Close(kept_, false);
    const std::size_t looked = waiting_.looked(kind);
    double best = 0;
    std::size_t best_node = state_.nodes.size();
    const auto look = [&](std::size_t node) {
      const double score = ScoreOf(kind, node);
      if (score > -kForever &&
          (best_node == state_.nodes.size() || score > best || (score == best && node < best_node))) {
        best = score;
        best_node = node;
      }
    };
    if (looked == Waiting::kNever || left_.size() - looked > state_.nodes.size()) {
      for (std::size_t node = 0; node < state_.nodes.size(); ++node) look(node);
    } else {
      for (std::size_t i = looked; i < left_.size(); ++i) look(left_[i]);
    }
    if (best_node == state_.nodes.size()) {
      if (kept) Close(kept_, true);
      waiting_.Looked(kind, left_.size());
      return false;
    }
    const std::optional<Choice> choice = policy_.OnNode(state_, state_.nodes[best_node], kind);
    assert(choice);
    waiting_.Pop(kind);
    Start(job, best_node, choice->gpus, false);
    if (kept) Release();
    return true;
  }

  double ScoreOf(std::size_t kind, std::size_t node) {
    std::vector<Score>& known = scores_[kind];
    if (known.empty()) known.resize(state_.nodes.size());
    Score& score = known[node];
    if (score.version != state_.nodes[node].version) {
      const std::optional<Choice> choice = policy_.OnNode(state_, state_.nodes[node], kind);
      score = {choice ? choice->score : -kForever, state_.nodes[node].version};
    }
    return score.value;
  }

  // Jobs that were out of memory get GPUs of their own; where none are empty, some are kept until they are.
  void StartAgain() {
    while (!again_.empty()) {
      const std::size_t job = again_.front();
      const Kind& kind = state_.kind(state_.workload.jobs[job].kind);
      std::size_t best = 0, fewest = std::numeric_limits<std::size_t>::max();
      std::vector<std::size_t> gpus;
      if (!kept_again_.empty()) {
        gpus = kept_again_;
        fewest = 0;
        for (const std::size_t gpu : gpus) fewest += state_.gpus[gpu].slots.size();
        best = state_.gpus[gpus.front()].node;
      } else {
        for (std::size_t number = 0; number < state_.nodes.size() && fewest > 0; ++number) {
          const auto [slots, found] = EmptiestOf(state_.nodes[number], kind);
          if (found.empty() || slots >= fewest) continue;
          fewest = slots, best = number, gpus = found;
        }
        if (gpus.empty()) return;  // all that could do are kept for another
        Close(gpus, true);
        kept_again_ = gpus;
      }
      if (fewest > 0 || !state_.HostFits(state_.nodes[best], kind)) return;
      again_.pop_front();
      kept_again_.clear();
      Start(job, best, gpus, true);
    }
  }

  std::pair<std::size_t, std::vector<std::size_t>> EmptiestOf(const NodeState& node, const Kind& kind) const {
    std::vector<std::pair<std::size_t, std::size_t>> open;
    for (std::size_t gpu = node.first; gpu < node.first + static_cast<std::size_t>(node.gpus); ++gpu) {
      const Gpu& at = state_.gpus[gpu];
      if (!at.closed && kind.on[at.type].memory <= state_.memory(at)) open.emplace_back(at.slots.size(), gpu);
    }
    if (open.size() < static_cast<std::size_t>(kind.gpus)) return {};
    std::ranges::sort(open);
    std::size_t slots = 0;
    std::vector<std::size_t> gpus;
    for (std::size_t i = 0; i < static_cast<std::size_t>(kind.gpus); ++i) {
      slots += open[i].first;
      gpus.push_back(open[i].second);
    }
    return {slots, gpus};
  }

  // ---- What is kept for the first job that waits
  void Close(const std::vector<std::size_t>& gpus, bool closed) {
    for (const std::size_t gpu : gpus) state_.gpus[gpu].closed = closed;
    Changed(state_.gpus[gpus.front()].node);
  }

  void Release() {
    if (kept_.empty()) return;
    Close(kept_, false);
    Left(state_.gpus[kept_.front()].node);
    kept_.clear();
    kept_for_ = Waiting::kNever;
  }

  void KeepForFirst() {
    if (!policy_.HoldsForFirst()) return;
    if (waiting_.empty()) return Release();
    const std::size_t number = waiting_.order().begin()->second, job = waiting_.First(number);
    if (kept_for_ == job) return;
    Release();
    const Kind& kind = state_.kind(number);
    if (kind.by_share() || waiting_.looked(number) != left_.size()) return;
    double soonest = kForever;
    std::vector<std::size_t> gpus;
    for (std::size_t i = 0; i < std::min(kMostNodesLookedAt, state_.nodes.size()); ++i) {
      const NodeState& node = state_.nodes[(job + i) % state_.nodes.size()];
      std::vector<std::pair<double, std::size_t>> times;
      for (std::size_t gpu = node.first; gpu < node.first + static_cast<std::size_t>(node.gpus); ++gpu) {
        if (!state_.gpus[gpu].closed) times.emplace_back(RoomFrom(gpu, number), gpu);
      }
      if (times.size() < static_cast<std::size_t>(kind.gpus)) continue;
      std::ranges::sort(times);
      const double from = times[static_cast<std::size_t>(kind.gpus) - 1].first;
      if (from <= state_.now) return;  // there is room; it waits because nothing would be gained
      if (from >= soonest) continue;
      soonest = from;
      gpus.clear();
      for (int k = 0; k < kind.gpus; ++k) gpus.push_back(times[static_cast<std::size_t>(k)].second);
    }
    if (gpus.empty()) return;
    kept_ = gpus;
    kept_for_ = job;
    Close(kept_, true);
  }

  // When enough of the GPU's jobs will have ended, at their present speeds.
  double RoomFrom(std::size_t number, std::size_t kind) const {
    const Gpu& gpu = state_.gpus[number];
    const OnGpu& on = state_.on(kind, gpu);
    if (on.estimate > state_.memory(gpu)) return kForever;
    Bytes room = state_.memory(gpu) - gpu.reserved;
    const Bytes need = policy_.Reserve(state_, gpu, kind);
    std::vector<std::pair<double, Bytes>> ends;
    for (const Slot& slot : gpu.slots) {
      const Running& job = running_[slot.job];
      ends.emplace_back(job.since + job.left / job.rate, slot.reserved);
    }
    std::ranges::sort(ends);
    double at = state_.now;
    for (std::size_t i = 0; i < ends.size() && room < need; ++i) {
      at = std::max(at, ends[i].first);
      room += ends[i].second;
    }
    return room >= need ? at : kForever;
  }

  // ---- Starts and ends
  void Start(std::size_t job, std::size_t node, const std::vector<std::size_t>& gpus, bool alone) {
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
    if (policy_.SettleSeconds() > 0 && !gpus.empty()) {
      events_.push({state_.now + policy_.SettleSeconds(), EventKind::kSettled, node, 0});
    }
  }

  bool RunsOut(std::size_t kind, const std::vector<std::size_t>& gpus) const {
    if (state_.kind(kind).by_share()) return false;
    return std::ranges::any_of(gpus, [&](std::size_t number) {
      const Gpu& gpu = state_.gpus[number];
      const Bytes memory = state_.on(kind, gpu).memory;
      const std::optional<Bytes> limit = policy_.Limit(state_, gpu, kind);
      return gpu.taken + memory > state_.memory(gpu) || (limit && memory > *limit);
    });
  }

  void Occupy(std::size_t number, std::size_t job, std::size_t kind, bool alone) {
    Gpu& gpu = state_.gpus[number];
    Slot slot{.job = job, .kind = kind, .milli = MilliOf(state_, gpu, kind)};
    if (!state_.kind(kind).by_share()) {
      slot.memory = state_.on(kind, gpu).memory;
      slot.reserved = policy_.Reserve(state_, gpu, kind);
    }
    gpu.taken += slot.memory;
    gpu.reserved += slot.reserved;
    gpu.milli_free -= slot.milli;
    gpu.closed = alone;
    gpu.settled_at = state_.now + policy_.SettleSeconds();
    gpu.slots.push_back(slot);
    assert(gpu.taken <= state_.memory(gpu));
    out_.most_memory = std::max(out_.most_memory, gpu.taken);
    out_.most_together = std::max(out_.most_together, static_cast<std::int64_t>(gpu.slots.size()));
    asked_ += std::min(slot.milli, kWholeGpu);
    most_asked_ = std::max(most_asked_, asked_);
  }

  void End(std::size_t job) {
    Running& run = running_[job];
    const std::size_t kind = state_.workload.jobs[job].kind;
    ++run.version;
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

  // ---- Speeds
  // Those who share the GPU are others now: its jobs go on at other speeds.
  void Speeds(std::size_t number) {
    Gpu& gpu = state_.gpus[number];
    in_use_ += gpu_busy_sum_ * (state_.now - in_use_at_);
    in_use_at_ = state_.now;
    const std::vector<GpuUser> users = UsersOf(state_, gpu);
    const std::vector<double> rates = Rates(users);
    double busy = BusyShare(users, rates);
    std::size_t user = 0;
    for (Slot& slot : gpu.slots) {
      if (state_.kind(slot.kind).by_share()) {
        busy += static_cast<double>(slot.milli) / kWholeGpu;
      } else {
        slot.rate = rates[user++];
      }
    }
    gpu_busy_sum_ += busy - gpu.busy;
    gpu.busy = busy;
    for (const Slot& slot : gpu.slots) {
      if (!state_.kind(slot.kind).by_share()) Expect(slot.job);
    }
  }

  // Counts what the job has done, and says when it will end.
  void Expect(std::size_t job) {
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

  // ---- Marks
  void Changed(std::size_t node) { ++state_.nodes[node].version; }
  void Left(std::size_t node) {
    Changed(node);
    left_.push_back(node);
  }

  Outcome Summary() {
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

  struct Score {
    double value = 0;
    std::uint32_t version = 0;
  };

  State state_;
  Policy& policy_;
  const SimulateOptions& options_;
  Waiting waiting_;
  std::vector<std::vector<Score>> scores_;  // by kind and node, as far as they were asked for
  std::vector<Running> running_;            // by job
  std::vector<double> first_start_;         // by job; below 0: not yet
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::size_t> left_;  // nodes that something has left, in that order
  std::deque<std::size_t> again_;  // jobs that were out of memory
  std::vector<std::size_t> kept_again_, kept_;
  std::size_t kept_for_ = Waiting::kNever;
  Outcome out_;
  double in_use_ = 0, in_use_at_ = 0, gpu_busy_sum_ = 0, completion_ = 0, last_end_ = 0;
  std::int64_t asked_ = 0, most_asked_ = 0;
};

}  // namespace

Outcome Simulate(const Hardware& hardware, const Workload& workload, Policy& policy, const SimulateOptions& options) {
  return Simulation(hardware, workload, policy, options).Execute();
}

}  // namespace ebbtide::cluster
