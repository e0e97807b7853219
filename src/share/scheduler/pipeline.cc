// The rules by which groups start, and the memory that jobs get when they join.
#include "share/scheduler/pipeline.h"

#include <algorithm>
#include <cassert>

namespace ebbtide::share {
namespace {

// Of virtual time, for an iteration of weight 1: divisible by every weight up to 16.
constexpr std::int64_t kIteration = 720'720;
constexpr std::int64_t kMostWeight = 1000;

Status CheckShape(const JobShape& shape) {
  if (shape.groups.empty()) return Fail("{}: expected at least one group", shape.name);
  if (shape.weight < 1 || shape.weight > kMostWeight) {
    return Fail("{}: expected a weight from 1 to {}, found {}", shape.name, kMostWeight, shape.weight);
  }
  if (shape.persistent < 0 || shape.persistent > kTooLarge) return Fail("{}: bad persistent bytes", shape.name);
  Bytes before = 0;
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    const GroupShape& group = shape.groups[g];
    if (group.after < 0 || group.peak < std::max(before, group.after) || group.peak > kTooLarge) {
      return Fail("{}: group {}: expected a peak of at least the heights before and after it", shape.name, g);
    }
    before = group.after;
  }
  if (before != 0) return Fail("{}: expected a height of 0 after the last group", shape.name);
  return {};
}

}  // namespace

Pipeline::Pipeline(const PipelineOptions& options)
    : options_(options), regions_(options.capacity / options.alignment * options.alignment, options.alignment) {}

// ---- Jobs come and go

Result<JobId> Pipeline::Join(const JobShape& given) {
  EBB_RETURN_IF_ERROR(CheckShape(given));
  Job job;
  JobShape shape = given;
  job.member = true;
  if (const auto begun = last_begun_.find(given.priority); begun != last_begun_.end()) job.virtual_time = begun->second;
  const auto up = [&](Bytes bytes) { return RoundUp(bytes, options_.alignment); };
  shape.persistent = up(given.persistent);
  for (GroupShape& group : shape.groups) group = {up(group.peak), up(group.after)};
  std::vector<Bytes> rest(shape.groups.size() + 1, 0);
  for (std::size_t g = shape.groups.size(); g-- > 0;) rest[g] = std::max(rest[g + 1], shape.groups[g].peak);
  job.shape = std::make_shared<const JobShape>(std::move(shape));
  job.rest = std::make_shared<const std::vector<Bytes>>(std::move(rest));
  const Bytes need = std::max(Peak(job), options_.alignment);

  // Into `lane`, or into one of its own; the regions change only if that works.
  const auto enter = [&](std::optional<LaneId> lane) {
    Regions trial = regions_;
    if (lane ? !trial.Require(*lane, need) : !(lane = trial.OpenLane(need))) return false;
    const auto state = trial.AddState(job.shape->persistent);
    if (!state) return false;
    regions_ = std::move(trial);
    job.lane = *lane, job.state = *state;
    return true;
  };
  std::vector<int> members(regions_.lanes().size(), 0);
  for (const Job& other : jobs_) members[other.lane.index()] += other.member ? 1 : 0;
  std::vector<LaneId> order;
  for (std::size_t lane = 0; lane < members.size(); ++lane) {
    const bool welcome = given.lane == kAnyLane || lane_names_[lane] == given.lane;
    if (regions_.lanes()[lane].open && welcome) order.push_back(LaneId(lane));
  }
  std::ranges::stable_sort(order, {}, [&](LaneId lane) { return members[lane.index()]; });
  const bool named = given.lane != kAnyLane && !order.empty();
  bool entered = !named && enter(std::nullopt);
  for (std::size_t i = 0; i < order.size() && !entered; ++i) entered = enter(order[i]);
  if (!entered) {
    return Fail("{}: needs {} for its state and up to {} for an iteration; of {}, {} are taken", given.name,
                FormatBytes(job.shape->persistent), FormatBytes(need), FormatBytes(regions_.capacity()),
                FormatBytes(regions_.taken()));
  }
  lane_names_.resize(regions_.lanes().size(), kAnyLane);
  if (!named) lane_names_[job.lane.index()] = given.lane;
  const LaneId lane = job.lane;
  jobs_.push_back(std::move(job));
  UpdateUseful(lane);
  return JobId(jobs_.size() - 1);
}

bool Pipeline::IsReady(JobId id) const {
  const Job& job = jobs_[id.index()];
  return job.member && regions_.IsClear(job.state, job.shape->persistent) && regions_.lane(job.lane).size >= Peak(job);
}

Bytes Pipeline::StateAddress(JobId id) const { return jobs_[id.index()].state; }

void Pipeline::Leave(JobId id) {
  Job& job = jobs_[id.index()];
  assert(job.member && !job.within);
  std::erase_if(flights_, [&](const Flight& flight) { return flight.job == id; });
  job.member = job.waiting = false;
  if (job.shape->persistent > 0) regions_.RemoveState(job.state);
  UpdateUseful(job.lane);
}

// More than the two largest peaks side by side is of no use to a lane.
void Pipeline::UpdateUseful(LaneId lane) {
  Bytes first = 0, second = 0;
  bool open = false;
  for (const Job& job : jobs_) {
    if (!job.member || job.lane != lane) continue;
    open = true;
    const Bytes peak = std::max(Peak(job), options_.alignment);
    second = std::max(second, std::min(first, peak));
    first = std::max(first, peak);
  }
  if (open) {
    regions_.SetNeed(lane, first, first + second);
  } else {
    regions_.CloseLane(lane);
  }
  Settle();
}

// Lanes take their target size when nothing is at their top. A lane that shrinks makes room for others.
void Pipeline::Settle() {
  for (std::size_t i = 0; i < regions_.lanes().size(); ++i) {
    const LaneId lane(i);
    if (!regions_.lane(lane).open) continue;
    const auto at_top = [&](const auto& occupant) { return occupant.lane == lane && occupant.end == LaneEnd::kTop; };
    const bool busy = std::ranges::any_of(jobs_, [&](const Job& job) { return job.within && at_top(job); }) ||
                      std::ranges::any_of(flights_, at_top);
    if (!busy) regions_.Resize(lane);
  }
}

// ---- Memory

Bytes Pipeline::Held(const Job& job) {
  return job.granted > job.queued ? job.shape->groups[job.granted - 1].peak : HeldThen(job);
}

Bytes Pipeline::HeldThen(const Job& job) { return job.granted == 0 ? 0 : job.shape->groups[job.granted - 1].after; }

const Pipeline::Job* Pipeline::OtherWithin(const Job& job) const {
  for (const Job& other : jobs_) {
    if (&other != &job && other.within && other.lane == job.lane) return &other;
  }
  return nullptr;
}

std::optional<LaneEnd> Pipeline::FreeEnd(LaneId lane) const {
  bool taken[2] = {false, false};
  for (const Job& job : jobs_) {
    if (job.within && job.lane == lane) taken[static_cast<int>(job.end)] = true;
  }
  if (!taken[0]) return LaneEnd::kBottom;
  // The top is left alone while it is to move.
  if (!taken[1] && regions_.lane(lane).size == regions_.Target(lane)) return LaneEnd::kTop;
  return std::nullopt;
}

// ---- Turns

std::int64_t Pipeline::Charge(const Job& job) const { return kIteration / job.shape->weight; }

bool Pipeline::GoesBefore(const Job& a, std::size_t a_index, const Job& b, std::size_t b_index) const {
  if (a.shape->priority != b.shape->priority) return a.shape->priority > b.shape->priority;
  if (a.virtual_time != b.virtual_time) return a.virtual_time < b.virtual_time;
  return a_index < b_index;
}

Refusal Pipeline::WhyNotBegin(std::size_t index) const {
  const Job& job = jobs_[index];
  if (!IsReady(JobId(index))) return Refusal::kNotReady;
  if (!FreeEnd(job.lane)) return Refusal::kEnds;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Job& other = jobs_[i];
    if (i == index || !other.member) continue;
    if (other.lane == job.lane && other.waiting && IsReady(JobId(i)) && GoesBefore(other, i, job, index)) {
      return Refusal::kTurn;
    }
    const bool wants_to_run = other.within || (other.waiting && IsReady(JobId(i)));
    if (wants_to_run && other.shape->priority == job.shape->priority &&
        job.virtual_time > other.virtual_time + options_.ahead * Charge(job)) {
      return Refusal::kAhead;
    }
  }
  const Job* other = OtherWithin(job);
  if (other == nullptr) return Refusal::kNone;
  const Bytes size = regions_.lane(job.lane).size;
  const GroupShape& first = job.shape->groups[0];
  // The older one must be able to end beside what the group leaves.
  if (Held(*other) + first.peak > size || Reach(*other) + first.after > size) return Refusal::kMemory;
  if (MustYield(*other, first.peak)) return Refusal::kMemory;
  const bool fit_side_by_side = Peak(*other) + Peak(job) <= size;
  if (options_.start_at_ebb && !fit_side_by_side && Reach(*other) == Peak(*other)) return Refusal::kEbb;
  return Refusal::kNone;
}

Refusal Pipeline::WhyNotGoOn(const Job& job) const {
  const Job* other = OtherWithin(job);
  if (other == nullptr) return Refusal::kNone;
  const Bytes size = regions_.lane(job.lane).size;
  const GroupShape& group = job.shape->groups[job.granted];
  if (Held(*other) + group.peak > size) return Refusal::kMemory;
  const bool other_can_end = Reach(*other) + group.after <= size;
  const bool this_can_end = (*job.rest)[job.granted + 1] + HeldThen(*other) <= size;
  if (!other_can_end && !this_can_end) return Refusal::kMemory;
  if (other->serial > job.serial) return Refusal::kNone;
  // Right of way: the older one that stands still is not put off further.
  const bool was_safe_for_other = Reach(*other) + HeldThen(job) <= size;
  if (!other_can_end && was_safe_for_other && other->blocked) return Refusal::kMemory;
  return MustYield(*other, group.peak) ? Refusal::kMemory : Refusal::kNone;
}

// Whether an older iteration that stands still could go on now, and could not beside `peak`.
bool Pipeline::MustYield(const Job& older, Bytes peak) const {
  if (!older.blocked) return false;
  const Bytes next = older.shape->groups[older.granted].peak;
  return next + peak > regions_.lane(older.lane).size && WhyNotGoOn(older) == Refusal::kNone;
}

Refusal Pipeline::WhyNot(JobId id, int group) const {
  const Job& job = jobs_[id.index()];
  assert(job.member && group == job.granted && job.granted == job.queued);
  return group == 0 ? WhyNotBegin(id.index()) : WhyNotGoOn(job);
}

// The least virtual time a job of this priority may come back with from a pause: it has saved up no more than what one
// that never paused may be behind.
std::int64_t Pipeline::EarliestReturn(int priority) const {
  std::int64_t charge = 0;
  for (const Job& job : jobs_) {
    if (job.member && job.shape->priority == priority) charge = std::max(charge, Charge(job));
  }
  const auto begun = last_begun_.find(priority);
  return (begun == last_begun_.end() ? 0 : begun->second) - (options_.ahead + 1) * charge;
}

// ---- An iteration

std::vector<Awaited> Pipeline::Conflicts(const Job& job, std::size_t index, int group) const {
  const Bytes size = regions_.lane(job.lane).size, peak = job.shape->groups[group].peak;
  std::vector<Awaited> out;
  for (const Flight& flight : flights_) {
    if (flight.job.index() == index || flight.lane != job.lane) continue;
    // A stream keeps its order: what lay at this end before is waited for once, and of each job the last.
    const bool collides = flight.end == job.end ? group == 0 : flight.peak + peak > size;
    if (!collides) continue;
    const auto known = std::ranges::find(out, flight.job, &Awaited::job);
    const Awaited awaited{flight.job, flight.iteration, flight.group};
    if (known == out.end()) {
      out.push_back(awaited);
    } else {
      *known = awaited;
    }
  }
  return out;
}

std::optional<Grant> Pipeline::TryStart(JobId id, int group) {
  Job& job = jobs_[id.index()];
  if (group == 0 && !job.waiting) {
    job.waiting = true;
    job.virtual_time = std::max(job.virtual_time, EarliestReturn(job.shape->priority));
  }
  if (WhyNot(id, group) != Refusal::kNone) {
    job.blocked = group > 0;
    return std::nullopt;
  }
  if (group == 0) {
    job.end = *FreeEnd(job.lane);
    job.within = true;
    job.waiting = false;
    ++job.begun;
    job.serial = next_serial_++;
    std::int64_t& begun = last_begun_.try_emplace(job.shape->priority, job.virtual_time).first->second;
    begun = std::max(begun, job.virtual_time);
    job.virtual_time += Charge(job);
  }
  job.blocked = false;
  const Regions::Lane& lane = regions_.lane(job.lane);
  Grant grant{.span = {.lane = job.lane, .end = job.end, .begin = lane.begin, .size = lane.size},
              .iteration = job.begun,
              .wait_for = Conflicts(job, id.index(), group)};
  ++job.granted;
  flights_.push_back({id, job.begun, group, job.lane, job.end, job.shape->groups[group].peak});
  return grant;
}

void Pipeline::Queued(JobId id, int group) {
  Job& job = jobs_[id.index()];
  assert(job.within && job.granted == group + 1 && job.queued == group);
  if (job.queued > group) return;
  job.queued = group + 1;
  if (job.queued < static_cast<int>(job.shape->groups.size())) return;
  job.within = false;
  job.granted = job.queued = 0;
  ++job.completed;
  job.waiting = true;
  Settle();
}

void Pipeline::Finished(JobId id, int group) {
  const auto flight = std::ranges::find(flights_, id, &Flight::job);
  assert(flight != flights_.end() && flight->group == group);
  const Job& job = jobs_[id.index()];
  const bool queued = !job.within || flight->iteration < job.begun || flight->group < job.queued;
  flights_.erase(flight);
  if (!queued) Queued(id, group);
  Settle();
}

void Pipeline::Abort(JobId id) {
  Job& job = jobs_[id.index()];
  std::erase_if(flights_, [&](const Flight& flight) { return flight.job == id; });
  job.within = job.waiting = job.blocked = false;
  job.granted = job.queued = 0;
  Settle();
}

void Pipeline::Withdraw(JobId id) { jobs_[id.index()].waiting = false; }

std::vector<std::int64_t> Pipeline::Fingerprint() const {
  std::vector<std::int64_t> out;
  for (const Job& job : jobs_) {
    out.push_back(job.member);
    if (!job.member) continue;
    const std::int64_t earliest = EarliestReturn(job.shape->priority);
    const std::int64_t time = job.within || job.waiting ? job.virtual_time : std::max(job.virtual_time, earliest);
    const Job* beside = job.within ? OtherWithin(job) : nullptr;
    for (const std::int64_t value :
         std::initializer_list<std::int64_t>{job.lane.value, job.state, job.within, job.waiting, job.blocked,
                                             job.within ? static_cast<int>(job.end) : 0, job.granted, job.queued,
                                             beside != nullptr && beside->serial < job.serial, time - earliest}) {
      out.push_back(value);
    }
  }
  for (const Flight& flight : flights_) {
    out.push_back((flight.job.value * 10'000 + flight.group) * 2 + static_cast<int>(flight.end));
  }
  for (const Regions::Lane& lane : regions_.lanes()) out.push_back(lane.size);
  return out;
}

}  // namespace ebbtide::share
