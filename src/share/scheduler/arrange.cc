// Searches lanes and plans by what the simulator says of them.
#include "share/scheduler/arrange.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "plan/make_plan.h"
#include "share/scheduler/lane_choices.h"
#include "share/simulator/pipeline_scheduler.h"

namespace ebbtide::share {
namespace {

// Of the room beside the state of all, what jobs that are taller are planned for, one after the other: first so that
// they fit, then so that groups of another fit beside theirs.
constexpr double kPlannedShares[] = {1.0, 0.92, 0.75, 0.55};
// Less is taking turns: then it is tried what lower plans bring.
constexpr double kLeastOverlap = 0.1;
// More is tried only where it could bring this much.
constexpr double kWorthTrying = 1.05;
constexpr int kPlanAttempts = 4;

// By more than a thousandth of the time, or in the same time with more that overlaps; else the choice made first
// stands, that of more lanes and of fewer plans.
bool IsBetter(const Together& a, const Together& b) {
  const double ratio = static_cast<double>(a.round) / static_cast<double>(b.round);
  return ratio < 0.999 || (ratio <= 1 && a.overlap() > b.overlap() + 0.05);
}

// No way of sharing has shorter rounds: the device does all work, and each job all of its own.
double LeastRound(const std::vector<Job>& jobs) {
  double work = 0, longest = 0;
  for (const Job& job : jobs) {
    const Training& training = *job.training;
    for (const OpId op : training.share.ids()) {
      work += training.share[op] * static_cast<double>(training.workload.time[op] - training.launch[op]);
    }
    longest = std::max(longest, static_cast<double>(job.alone));
  }
  return std::max(work, longest);
}

// Lanes of the same trainings are the same choice.
std::vector<std::vector<const Training*>> KeyOf(const std::vector<Job>& jobs, const LaneChoice& lanes) {
  std::vector<std::vector<const Training*>> key(static_cast<std::size_t>(LanesOf(lanes)));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    key[static_cast<std::size_t>(lanes[i])].push_back(jobs[i].training.get());
  }
  for (auto& lane : key) std::ranges::sort(lane);
  std::ranges::sort(key);
  return key;
}

}  // namespace

Arranger::Arranger(MixOptions options) : options_(std::move(options)) {
  options_.together.link = options_.link;
  options_.together.stop = options_.stop;
}

Result<Mix> Arranger::Arrange(const Trainings& trainings) {
  Mix best;
  best.capacity = options_.capacity;
  std::vector<Job> tight;
  for (const auto& training : trainings) {
    best.exclusive += sim::PlainTime(training->workload);
    tight.push_back(Tight(training));
  }
  const Bytes state = StateOf(tight), tallest = Needs(tight, LaneChoice(tight.size(), 0))[0];
  best.needed = state + tallest;
  TryLanes(tight, best);
  for (const double share : kPlannedShares) {
    if (!options_.may_plan || !MayGain(best, tight) || Stopped()) break;
    const auto lower = LowerThan(tight, share);
    if (!lower) break;
    const bool same = std::ranges::equal(*lower, tight, {}, &Job::plan, &Job::plan);
    if (!same) TryLanes(*lower, best);
  }
  relaxed_.clear();
  if (Stopped()) return FailAs(ErrorKind::kStopped, "stopped");
  if (best.fits) {
    Record(best);
  } else {
    best.reason = fmt::format("the jobs' state takes {} and the tallest iteration {}; there are {}", FormatBytes(state),
                              FormatBytes(tallest), FormatBytes(options_.capacity));
    best.jobs = std::move(tight);
  }
  return best;
}

// ---- Lanes

void Arranger::TryLanes(const std::vector<Job>& tight, Mix& best) {
  std::set<std::vector<std::vector<const Training*>>> seen;
  std::vector<LaneChoice> fitting;
  for (const LaneChoice& lanes : LaneChoices(tight.size())) {
    const auto finer = [&](const LaneChoice& other) { return IsFinerThan(other, lanes); };
    if (std::ranges::any_of(fitting, finer) || !seen.insert(KeyOf(tight, lanes)).second) continue;
    if (Stopped()) return;
    if (Try(tight, lanes, best)) fitting.push_back(lanes);
  }
}

// `tight`: placed as low as they go. What the lane has beyond that is spent on a lower profile. Whether it fits.
bool Arranger::Try(const std::vector<Job>& tight, const LaneChoice& lanes, Mix& best) {
  const std::vector<Bytes> needs = Needs(tight, lanes);
  const Bytes room = options_.capacity - StateOf(tight);
  const Bytes spare = room - std::accumulate(needs.begin(), needs.end(), Bytes{0});
  if (spare < 0) return false;
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < tight.size(); ++i) {
    const Bytes limit = needs[static_cast<std::size_t>(lanes[i])] + spare / static_cast<Bytes>(needs.size());
    jobs.push_back(Relaxed(tight[i], limit / options_.alignment * options_.alignment));
  }
  bool fits = false;
  const bool shared = needs.size() < jobs.size();
  for (const bool at_ebb : {true, false}) {
    if (!at_ebb && !shared) continue;
    auto scheduler = PipelineScheduler::Make(
        jobs, lanes,
        {.pipeline = {.capacity = options_.capacity, .alignment = options_.alignment, .start_at_ebb = at_ebb}});
    if (!scheduler) continue;
    const Together together = RunTogether(jobs, *scheduler, options_.together);
    if (together.stuck || together.stopped) continue;
    fits = true;
    if (best.fits && !IsBetter(together, best.together)) continue;
    best.fits = true;
    best.jobs = jobs, best.lanes = lanes, best.start_at_ebb = at_ebb, best.together = together;
  }
  return fits;
}

Bytes Arranger::StateOf(const std::vector<Job>& jobs) const {
  return std::accumulate(jobs.begin(), jobs.end(), Bytes{0},
                         [&](Bytes sum, const Job& job) { return sum + Up(job.placement.state); });
}

// By lane.
std::vector<Bytes> Arranger::Needs(const std::vector<Job>& jobs, const LaneChoice& lanes) const {
  std::vector<Bytes> needs(static_cast<std::size_t>(std::max(LanesOf(lanes), 1)), 0);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Bytes& need = needs[static_cast<std::size_t>(lanes[i])];
    need = std::max(need, Up(jobs[i].placement.height));
  }
  return needs;
}

// ---- Jobs

const Job& Arranger::Tight(const std::shared_ptr<const Training>& training) {
  const auto known = tight_.find(training);
  if (known != tight_.end()) return known->second;
  return tight_.emplace(training, Place(training, training->own_plan, 0)).first->second;
}

Job Arranger::Place(const std::shared_ptr<const Training>& training, const Plan& plan, Bytes height_limit) const {
  return MakeJob(training, plan, height_limit, options_.cut, options_.link);
}

// Where the search for addresses does not keep the limit that it kept with less room, the tight one stands.
const Job& Arranger::Relaxed(const Job& tight, Bytes height_limit) {
  const auto [found, is_new] = relaxed_.try_emplace({tight.training, tight.plan, height_limit});
  if (is_new) {
    found->second = Place(tight.training, tight.plan, height_limit);
    if (found->second.placement.height > height_limit) found->second = tight;
  }
  return found->second;
}

// ---- Plans

// Whether lower plans could bring something: nothing fits, or lanes are shared and the device is left idle.
bool Arranger::MayGain(const Mix& best, const std::vector<Job>& tight) const {
  if (!best.fits) return true;
  if (LanesOf(best.lanes) == static_cast<int>(tight.size())) return false;
  return best.together.overlap() < kLeastOverlap ||
         static_cast<double>(best.together.round) > kWorthTrying * LeastRound(tight);
}

// Every job that is taller than so much of the room beside all state gets a plan that is not. Nothing: one of them
// cannot.
std::optional<std::vector<Job>> Arranger::LowerThan(const std::vector<Job>& tight, double share_of_room) {
  const auto share = static_cast<Bytes>(share_of_room * static_cast<double>(options_.capacity - StateOf(tight)));
  const Bytes room = share / options_.alignment * options_.alignment;
  std::vector<Job> out;
  for (const Job& job : tight) {
    std::optional<Job> lower = Within(job.training, room);
    if (!lower) return std::nullopt;
    out.push_back(*std::move(lower));
  }
  return out;
}

std::optional<Job> Arranger::Within(const std::shared_ptr<const Training>& training, Bytes room) {
  const Job& tight = Tight(training);
  if (Up(tight.placement.height) <= room) return tight;
  if (room <= 0 || training->policy == "none") return std::nullopt;
  const auto known = lower_.find({training, room});
  if (known != lower_.end()) return known->second;
  Say(fmt::format("a plan of {} for {}", training->model, FormatBytes(room)));
  std::optional<Job> made = MakeLower(tight, room);
  if (!Stopped()) lower_.emplace(std::pair(training, room), made);
  return made;
}

std::optional<Job> Arranger::MakeLower(const Job& tight, Bytes room) {
  const auto policy = plan::FindPolicy(tight.training->policy);
  if (!policy) return std::nullopt;
  plan::SearchOptions search;
  search.evaluations = options_.evaluations;
  search.threads = options_.threads;
  search.stop = options_.stop;
  Bytes budget = tight.placement.state + room;
  for (int attempt = 0; attempt < kPlanAttempts && budget > 0 && !Stopped(); ++attempt) {
    const plan::Problem problem = plan::MakeProblem(tight.training->workload, options_.link, {.budget = budget});
    plan::Planned planned = plan::MakePlan(tight.training->graph, problem, **policy, search);
    if (!planned.plan) break;
    Job job = Place(tight.training, std::make_shared<const plan::Plan>(*std::move(planned.plan)), room);
    const Bytes over = Up(job.placement.height) - room;
    if (over <= 0) return job;
    budget -= over + over / 4;  // the lane's placement wants more than the plan's own
  }
  return std::nullopt;
}

// The chosen mix once more, with all that is drawn.
void Arranger::Record(Mix& best) const {
  auto scheduler = PipelineScheduler::Make(
      best.jobs, best.lanes,
      {.pipeline = {
           .capacity = options_.capacity, .alignment = options_.alignment, .start_at_ebb = best.start_at_ebb}});
  best.join_order = JoinOrder(best.jobs, best.lanes);
  TogetherOptions options = options_.together;
  options.keep_timeline = true;
  best.together = RunTogether(best.jobs, *scheduler, options);
  for (const Regions::Lane& lane : scheduler->pipeline().regions().lanes()) best.lane_sizes.push_back(lane.size);
  const Bytes state = StateOf(best.jobs);
  std::vector<Bytes> heights(best.jobs.size(), 0);
  for (const MemoryPoint& point : best.together.memory) {
    heights[point.job] = point.height;
    best.peak = std::max(best.peak, state + std::accumulate(heights.begin(), heights.end(), Bytes{0}));
  }
}

Result<Mix> ArrangeMix(const std::vector<std::shared_ptr<const Training>>& trainings, const MixOptions& options) {
  return Arranger(options).Arrange(trainings);
}

// ---- Without plans

MixOptions OptionsFor(const DeviceProfile& gpu) {
  MixOptions options;
  options.gpu = gpu;
  options.capacity = gpu.memory - gpu.context;
  options.link = LinkOf(gpu);
  options.together.link = options.link;
  return options;
}

Bytes StateOf(const sim::Workload& workload) {
  Bytes state = 0;
  for (const StorageId s : workload.storage_ids()) {
    if (workload.IsState(s) || !workload.last_reference[s].valid()) state += workload.bytes[s];
  }
  return state;
}

bool FitsInOneLane(const std::vector<std::shared_ptr<const Training>>& trainings, const MixOptions& options) {
  Bytes state = 0, tallest = 0;
  for (const auto& training : trainings) {
    state += StateOf(training->workload);
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
