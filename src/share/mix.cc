#include "share/mix.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "plan/make_plan.h"
#include "share/pipeline_gate.h"

namespace ebbtide::share {
namespace {

using Trainings = std::vector<std::shared_ptr<const Training>>;

constexpr std::size_t kMostForSearch = 5;

// The ways to put jobs into lanes, as the lane of each; lanes are numbered by their first job. Alike jobs change
// nothing by changing places, but the count is small.
std::vector<std::vector<int>> Partitions(std::size_t jobs) {
  std::vector<std::vector<int>> out = {{}};
  for (std::size_t i = 0; i < jobs; ++i) {
    std::vector<std::vector<int>> next;
    for (const std::vector<int>& partial : out) {
      const int lanes = partial.empty() ? 0 : *std::ranges::max_element(partial) + 1;
      for (int lane = 0; lane <= lanes; ++lane) {
        next.push_back(partial);
        next.back().push_back(lane);
      }
    }
    out = std::move(next);
  }
  return out;
}

std::vector<std::vector<int>> LaneChoices(std::size_t jobs) {
  if (jobs <= kMostForSearch) {
    std::vector<std::vector<int>> out = Partitions(jobs);
    std::ranges::stable_sort(out, std::greater<>(), [](const auto& lanes) { return *std::ranges::max_element(lanes); });
    return out;
  }
  std::vector<int> own(jobs), one(jobs, 0), two(jobs);
  std::iota(own.begin(), own.end(), 0);
  for (std::size_t i = 0; i < jobs; ++i) two[i] = static_cast<int>(i % 2);
  return {own, two, one};
}

Bytes StateOf(const std::vector<Job>& jobs) {
  return std::accumulate(jobs.begin(), jobs.end(), Bytes{0},
                         [](Bytes sum, const Job& job) { return sum + job.placement.state; });
}

// What the lanes need, by lane.
std::vector<Bytes> Needs(const std::vector<Job>& jobs, const std::vector<int>& lanes) {
  std::vector<Bytes> needs(static_cast<std::size_t>(*std::ranges::max_element(lanes)) + 1, 0);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    needs[lanes[i]] = std::max(needs[lanes[i]], jobs[i].placement.height);
  }
  return needs;
}

class Arranger {
 public:
  Arranger(const Trainings& trainings, const MixOptions& options) : trainings_(trainings), options_(options) {
    best_.capacity = options.capacity;
    for (const auto& training : trainings) best_.exclusive += sim::PlainTime(training->workload);
  }

  Mix Run() {
    std::vector<Job> tight;
    for (const auto& training : trainings_) {
      const auto known = std::ranges::find(tight, training, &Job::training);
      tight.push_back(known != tight.end() ? *known : Make(training, nullptr, 0));
    }
    TryAll(tight);
    // Jobs that fill their lane leave no room for another's groups: then they are planned for less of it.
    for (const double part : {1.0, 0.92}) {
      if (!options_.may_plan || (best_.fits && Overlap(best_.together) >= kEnoughOverlap)) break;
      if (auto planned = PlanTallJobs(tight, part)) TryAll(*planned);
    }
    if (!best_.fits) {
      const std::vector<Bytes> needs = Needs(tight, std::vector<int>(tight.size(), 0));
      best_.reason = fmt::format("the jobs' state takes {} and the tallest iteration {}; there are {}",
                                 FormatBytes(StateOf(tight)), FormatBytes(needs[0]), FormatBytes(options_.capacity));
      best_.jobs = std::move(tight);
    } else {
      Record();
    }
    return std::move(best_);
  }

 private:
  Job Make(const std::shared_ptr<const Training>& training, const sim::Schedule* schedule, Bytes enough) const {
    return MakeJob(training, schedule, enough, options_.cut, options_.link);
  }

  void TryAll(const std::vector<Job>& tight) {
    // Lanes of the same trainings are the same choice.
    std::set<std::vector<std::vector<const Training*>>> seen;
    for (const std::vector<int>& lanes : LaneChoices(tight.size())) {
      std::vector<std::vector<const Training*>> key(static_cast<std::size_t>(*std::ranges::max_element(lanes)) + 1);
      for (std::size_t i = 0; i < tight.size(); ++i) key[lanes[i]].push_back(tight[i].training.get());
      for (auto& lane : key) std::ranges::sort(lane);
      std::ranges::sort(key);
      if (seen.insert(std::move(key)).second) Try(tight, lanes);
    }
  }

  // `tight`: placed as low as they go. What the lane has beyond that is spent on a lower profile.
  void Try(const std::vector<Job>& tight, const std::vector<int>& lanes) {
    const std::vector<Bytes> needs = Needs(tight, lanes);
    const Bytes room = options_.capacity - StateOf(tight);
    const Bytes spare = room - std::accumulate(needs.begin(), needs.end(), Bytes{0});
    if (spare < 0) return;
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < tight.size(); ++i) {
      const Bytes enough = needs[lanes[i]] + spare / static_cast<Bytes>(needs.size());
      const bool planned = tight[i].planned;
      jobs.push_back(Relaxed(tight[i], planned ? &tight[i].placement.schedule : nullptr, enough / 512 * 512));
    }
    const bool shared = needs.size() < jobs.size();
    for (const bool at_ebb : {true, false}) {
      if (!at_ebb && !shared) continue;
      auto gate = PipelineGate::Make(jobs, lanes, PipelineFor(at_ebb));
      if (!gate) continue;
      const Together together = RunTogether(jobs, *gate, options_.together);
      if (together.stuck || (best_.fits && !IsBetter(together, best_.together))) continue;
      best_.fits = true;
      best_.jobs = jobs, best_.lanes = lanes, best_.at_ebb = at_ebb, best_.together = together;
    }
  }

  static constexpr double kEnoughOverlap = 0.1;
  static double Overlap(const Together& together) {
    return static_cast<double>(together.overlapped) /
           static_cast<double>(std::max<std::int64_t>(together.group_runs, 1));
  }
  // By more than a thousandth of the time, or in the same time with more that overlaps; else the choice made first
  // stands, that of more lanes.
  static bool IsBetter(const Together& a, const Together& b) {
    const double ratio = static_cast<double>(a.round) / static_cast<double>(b.round);
    return ratio < 0.999 || (ratio <= 1 && Overlap(a) > Overlap(b) + 0.05);
  }

  Job Relaxed(const Job& tight, const sim::Schedule* schedule, Bytes enough) {
    // A plan's schedule is told by the height it has when placed as low as it goes.
    const std::tuple key(static_cast<const Training*>(tight.training.get()), enough,
                         tight.planned ? tight.placement.height : 0);
    for (const auto& [known, job] : placed_) {
      if (known == key) return job;
    }
    placed_.emplace_back(key, Make(tight.training, schedule, enough));
    return placed_.back().second;
  }

  PipelineOptions PipelineFor(bool at_ebb) const {
    return {.capacity = options_.capacity, .start_at_ebb = at_ebb, .keeps_turn = true};
  }

  // Every job that is taller than the one lane under all the state gets a plan that is not. Nothing: one of them
  // cannot.
  std::optional<std::vector<Job>> PlanTallJobs(const std::vector<Job>& tight, double part) {
    const auto room =
        RoundUp(static_cast<Bytes>(part * static_cast<double>(options_.capacity - StateOf(tight))), 512) - 512;
    std::vector<Job> out;
    for (const Job& job : tight) {
      if (job.placement.height <= room) {
        out.push_back(job);
        continue;
      }
      auto planned = PlanWithin(job, room);
      if (!planned) return std::nullopt;
      out.push_back(*std::move(planned));
    }
    return out;
  }

  std::optional<Job> PlanWithin(const Job& job, Bytes room) {
    const std::pair key(static_cast<const Training*>(job.training.get()), room);
    for (const auto& [known, planned] : plans_) {
      if (known == key) return planned;
    }
    Bytes budget = job.placement.state + room;
    std::optional<Job> found;
    for (int attempt = 0; attempt < 4 && !found; ++attempt) {
      const plan::Problem problem = plan::MakeProblem(job.training->workload, options_.link, {.budget = budget});
      plan::SearchOptions search;
      search.evaluations = options_.evaluations;
      search.threads = options_.threads;
      const plan::Planned planned = plan::MakePlan(job.training->graph, problem, **plan::FindPolicy("home"), search);
      if (!planned.plan) break;
      Job candidate = Make(job.training, &planned.plan->schedule, room);
      const Bytes over = candidate.placement.height - room;
      if (over <= 0) found = std::move(candidate);
      budget -= over + over / 4;  // the lane's placement wants more than the plan's own
    }
    plans_.emplace_back(key, found);
    return found;
  }

  // The chosen mix once more, with all that is drawn.
  void Record() {
    auto gate = PipelineGate::Make(best_.jobs, best_.lanes, PipelineFor(best_.at_ebb));
    TogetherOptions options = options_.together;
    options.keep_timeline = true;
    best_.together = RunTogether(best_.jobs, *gate, options);
    for (const Regions::Lane& lane : gate->pipeline().regions().lanes()) best_.lane_sizes.push_back(lane.size);
    const Bytes state = StateOf(best_.jobs);
    std::vector<Bytes> heights(best_.jobs.size(), 0);
    for (const MemoryPoint& point : best_.together.memory) {
      heights[point.job] = point.height;
      best_.peak = std::max(best_.peak, state + std::accumulate(heights.begin(), heights.end(), Bytes{0}));
    }
  }

  const Trainings& trainings_;
  const MixOptions& options_;
  std::vector<std::pair<std::tuple<const Training*, Bytes, Bytes>, Job>> placed_;
  std::vector<std::pair<std::pair<const Training*, Bytes>, std::optional<Job>>> plans_;
  Mix best_;
};

}  // namespace

Bytes StateOf(const sim::Workload& workload) {
  Bytes state = 0;
  for (std::size_t s = 0; s < workload.storages(); ++s) {
    if (workload.born[s] == sim::kNone || workload.last_reference[s] == sim::kNone) state += workload.bytes[s];
  }
  return state;
}

MixOptions OptionsFor(const DeviceProfile& gpu) {
  MixOptions options;
  options.gpu = gpu;
  options.capacity = gpu.memory - gpu.context;
  options.link = {
      .to_device = gpu.host_to_device_bandwidth, .to_host = gpu.device_to_host_bandwidth, .latency = gpu.copy_latency};
  options.together.link = options.link;
  return options;
}

Mix ArrangeMix(const Trainings& trainings, const MixOptions& options) { return Arranger(trainings, options).Run(); }

bool FitsInOneLane(const Trainings& trainings, const MixOptions& options) {
  Bytes state = 0, tallest = 0;
  for (const auto& training : trainings) {
    const sim::Workload& workload = training->workload;
    state += StateOf(workload);
    if (state > options.capacity) return false;
  }
  std::set<const Training*> seen;
  for (const auto& training : trainings) {
    if (!seen.insert(training.get()).second) continue;
    // The live bytes decide most of the time, without a placement.
    if (sim::PlainPeak(training->workload) - StateOf(training->workload) + state > options.capacity) return false;
    const Placement placement =
        PlaceInLane(training->workload, PlainSchedule(training->workload), options.capacity - state);
    tallest = std::max(tallest, placement.height);
    if (state + tallest > options.capacity) return false;
  }
  return true;
}

}  // namespace ebbtide::share
