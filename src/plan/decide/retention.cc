// Keeps, for each storage, the runs that make it and that take it, and from them the memory of each stage.
#include "plan/decide/retention.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace ebbtide::plan {
namespace {

constexpr Bytes kNothing = -(Bytes{1} << 50);  // of the last stage, while nothing runs in it
constexpr std::size_t kShortList = 16;         // events of a storage up to which looking at all is quicker than halving

std::size_t StageIndex(Moment moment) { return Retention::StageOf(moment).index(); }

}  // namespace

Retention::Retention(const Problem& problem, const Units& units, std::vector<Absence> absences)
    : workload_(problem.workload),
      units_(&units),
      absences_(std::move(absences)),
      coming_(problem.workload->ops() + 1),
      leaving_(problem.workload->ops() + 1),
      first_needs_(problem.workload->ops() + 1),
      runs_(problem.workload->ops() + 1),
      stages_(problem.workload->ops() + 1),
      events_(problem.workload->storages()),
      inner_(problem.workload->ops() + 1, 0),
      levels_(problem.workload->ops() + 1),
      is_touched_(problem.workload->ops() + 1, false),
      seen_(problem.workload->storages(), 0) {
  for (const OpId op : workload_->op_ids()) {
    for (const StorageId s : workload_->needs[op]) {
      if (!workload_->IsState(s)) first_needs_[op].push_back(s);
    }
  }
  for (const StorageId s : workload_->storage_ids()) {
    if (workload_->IsState(s)) {
      state_ += workload_->bytes[s];
    } else if (workload_->outlives[s]) {
      first_needs_.back().push_back(s);
    }
  }
  levels_.SetBudget(problem.limits.budget);
  Load({});
}

void Retention::Load(std::span<const RunAgain> runs) {
  const std::size_t ops = workload_->ops();
  runs_.resize(ops + 1);
  free_.clear();
  active_.clear();
  again_ = 0;
  for (auto& list : events_) list.clear();
  const Bytes budget = levels_.budget();
  levels_ = Levels(ops + 1);
  levels_.SetBudget(-kNothing);  // what is above the real one is counted once all first runs are there
  levels_.Add(0, ops + 1, state_);
  std::ranges::fill(inner_, 0);
  for (std::size_t t = 0; t <= ops; ++t) {
    const RunId id(t);
    Run& run = runs_[id];
    run = {};
    run.at = ((Moment{t} + 1) << kPlaceBits) - 1;
    run.needs = static_cast<std::uint32_t>(first_needs_[OpId(t)].size());
    if (t < ops) run.scratch = workload_->workspace[OpId(t)];
    stages_[t].assign(1, id);
    if (t < ops) {
      for (const StorageId s : workload_->births[OpId(t)]) InsertMake(s, run.at, id);
    }
    for (const StorageId s : first_needs_[OpId(t)]) InsertTake(s, run.at, id);
    Touch(t);
  }
  LoadAbsences();
  Refresh();
  levels_.SetBudget(budget);
  for (std::size_t i = 0; i < runs.size();) {
    std::size_t end = i;
    while (end < runs.size() && runs[end].stage == runs[i].stage) ++end;
    const Moment begin = Moment{runs[i].stage.index()} << kPlaceBits;
    const Moment step = (Moment{1} << kPlaceBits) / (end - i + 1);
    for (std::size_t k = i; k < end; ++k) {
      if (May(runs[k].unit, runs[k].stage)) AddAt(runs[k].unit, begin + step * (k - i + 1) - 1);
    }
    i = end;
  }
  // The last first: what only serves what is of no use is of no use.
  std::vector<Moment> moments;
  for (const RunId run : active_) moments.push_back(runs_[run].at);
  std::ranges::sort(moments, std::greater<>());
  for (const Moment moment : moments) {
    if (IsUseless(RunAt(moment))) RemoveAt(moment);
  }
}

// A copy from the host makes the storage at the beginning of a stage; one to the host holds it to the end of one.
void Retention::LoadAbsences() {
  for (auto& list : coming_) list.clear();
  for (auto& list : leaving_) list.clear();
  for (const Absence& absence : absences_) {
    const StorageId s = absence.storage;
    const Moment from = Moment{absence.from.index()} << kPlaceBits;
    if (!absence.has_copy) {
      const Moment held = (Moment{absence.to.index()} << kPlaceBits) - 1;
      const std::size_t place = Find(s, held);
      const bool is_taken = place < events_[s].size() && events_[s][place].at == held;
      if (!is_taken) {
        InsertTake(s, held, RunId());
        leaving_[StageIndex(held)].push_back(s);
        Touch(StageIndex(held));
      }
    }
    InsertMake(s, from, RunId());
    coming_[StageIndex(from)].push_back(s);
    Touch(StageIndex(from));
  }
}

std::vector<RunAgain> Retention::Save() const {
  std::vector<RunAgain> out;
  out.reserve(active_.size());
  for (std::size_t t = 0; t < stages_.size(); ++t) {
    for (const RunId run : stages_[t]) {
      if (runs_[run].unit.valid()) out.push_back({OpId(t), runs_[run].unit});
    }
  }
  return out;
}

// ---- Decisions

bool Retention::May(UnitId unit, OpId stage) const {
  const Unit& described = units_->units[unit];
  return described.maker() < stage && stage <= described.last_stage;
}

Moment Retention::Add(UnitId unit, RunId before) {
  const Moment next = runs_[before].at;
  const std::vector<RunId>& stage = stages_[StageIndex(next)];
  const auto place = std::ranges::lower_bound(stage, next, {}, [&](RunId run) { return runs_[run].at; });
  const Moment previous = place == stage.begin() ? Moment{StageIndex(next)} << kPlaceBits : runs_[*std::prev(place)].at;
  const Moment moment = previous + (next - previous) / 2;
  if (moment == previous) return 0;
  AddAt(unit, moment);
  return moment;
}

void Retention::AddAt(UnitId unit, Moment moment) {
  const Unit& described = units_->units[unit];
  const std::size_t t = StageIndex(moment);
  RunId id;
  if (free_.empty()) {
    id = runs_.end_id();
    runs_.push_back({});
  } else {
    id = free_.back();
    free_.pop_back();
  }
  const auto part = std::prev(std::ranges::lower_bound(described.parts, OpId(t), {}, &Unit::Part::op));
  const auto needs = std::ranges::lower_bound(described.needs, OpId(t), {}, &Unit::Need::since);
  Run& run = runs_[id];
  run = {.unit = unit,
         .at = moment,
         .needs = static_cast<std::uint32_t>(needs - described.needs.begin()),
         .active_place = static_cast<std::uint32_t>(active_.size()),
         .scratch = part->scratch,
         .time = part->time};
  active_.push_back(id);
  again_ += run.time;
  std::vector<RunId>& stage = stages_[t];
  stage.insert(std::ranges::lower_bound(stage, moment, {}, [&](RunId r) { return runs_[r].at; }), id);
  for (const StorageId s : described.returns) InsertMake(s, moment, id);
  for (std::uint32_t i = 0; i < run.needs; ++i) InsertTake(described.needs[i].storage, moment, id);
  Touch(t);
  Refresh();
}

void Retention::RemoveAt(Moment moment) {
  const std::size_t t = StageIndex(moment);
  std::vector<RunId>& stage = stages_[t];
  const auto place = std::ranges::lower_bound(stage, moment, {}, [&](RunId r) { return runs_[r].at; });
  const RunId id = *place;
  const Run run = runs_[id];
  assert(run.at == moment && run.unit.valid());
  const Unit& described = units_->units[run.unit];
  stage.erase(place);
  for (std::uint32_t i = 0; i < run.needs; ++i) RemoveTake(described.needs[i].storage, moment);
  for (const StorageId s : described.returns) RemoveMake(s, moment);
  again_ -= run.time;
  active_[run.active_place] = active_.back();
  runs_[active_[run.active_place]].active_place = run.active_place;
  active_.pop_back();
  free_.push_back(id);
  Touch(t);
  Refresh();
}

// ---- Events. A storage is retained from a run that makes it to the last that takes it before the next that makes it.

std::size_t Retention::Find(StorageId s, Moment moment) const {
  const std::vector<Event>& list = events_[s];
  if (list.size() > kShortList)
    return static_cast<std::size_t>(std::ranges::lower_bound(list, moment, {}, &Event::at) - list.begin());
  std::size_t earlier = 0;
  for (const Event& event : list) earlier += event.at < moment ? 1 : 0;
  return earlier;
}

void Retention::InsertTake(StorageId s, Moment at, RunId run) {
  std::vector<Event>& list = events_[s];
  const std::size_t i = Find(s, at);
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), {at, run, false});
  if (i + 1 < list.size() && !list[i + 1].makes) return;
  std::size_t make = i - 1;
  while (!list[make].makes) --make;
  const std::size_t from = StageIndex(list[make].at), before = StageIndex(list[i - 1].at), to = StageIndex(at);
  Cover(std::max(from + 1, before), to, workload_->bytes[s]);
  Touch(before);
}

void Retention::RemoveTake(StorageId s, Moment at) {
  std::vector<Event>& list = events_[s];
  const std::size_t i = Find(s, at);
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
  if (i < list.size() && !list[i].makes) return;
  std::size_t make = i - 1;
  while (!list[make].makes) --make;
  const std::size_t from = StageIndex(list[make].at), before = StageIndex(list[i - 1].at), to = StageIndex(at);
  Cover(std::max(from + 1, before), to, -workload_->bytes[s]);
  Touch(before);
}

void Retention::InsertMake(StorageId s, Moment at, RunId run) {
  std::vector<Event>& list = events_[s];
  const std::size_t i = Find(s, at);
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), {at, run, true});
  if (i == 0 || i + 1 == list.size() || list[i + 1].makes) return;
  std::size_t make = i - 1, last = i + 1;
  while (!list[make].makes) --make;
  while (last + 1 < list.size() && !list[last + 1].makes) ++last;
  const std::size_t from = StageIndex(list[make].at), before = StageIndex(list[i - 1].at), to = StageIndex(at);
  const std::size_t end = StageIndex(list[last].at);
  Cover(std::max(from + 1, before), std::min(to + 1, end), -workload_->bytes[s]);
  Touch(before);
  Touch(end);
}

void Retention::RemoveMake(StorageId s, Moment at) {
  std::vector<Event>& list = events_[s];
  const std::size_t i = Find(s, at);
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
  if (i == list.size() || list[i].makes) return;
  std::size_t make = i - 1, last = i;
  while (!list[make].makes) --make;
  while (last + 1 < list.size() && !list[last + 1].makes) ++last;
  const std::size_t from = StageIndex(list[make].at), before = StageIndex(list[i - 1].at), to = StageIndex(at);
  const std::size_t end = StageIndex(list[last].at);
  Cover(std::max(from + 1, before), std::min(to + 1, end), workload_->bytes[s]);
  Touch(before);
  Touch(end);
}

// ---- Memory

void Retention::Touch(std::size_t stage) {
  if (is_touched_[stage]) return;
  is_touched_[stage] = true;
  touched_.push_back(stage);
}

void Retention::Refresh() {
  for (const std::size_t t : touched_) {
    is_touched_[t] = false;
    const Bytes inner = Inner(t);
    if (inner == inner_[t]) continue;
    levels_.Add(t, t + 1, inner - inner_[t]);
    inner_[t] = inner;
  }
  touched_.clear();
}

template <class Visit>
void Retention::ForNeeds(const Run& run, RunId id, const Visit& visit) const {
  if (!run.unit.valid()) {
    for (const StorageId s : first_needs_[OpId(id.index())]) visit(s);
    return;
  }
  const Unit& described = units_->units[run.unit];
  for (std::uint32_t i = 0; i < run.needs; ++i) visit(described.needs[i].storage);
}

// The most of what begins or ends in the stage.
Bytes Retention::Inner(std::size_t stage) const {
  ++count_;
  Bytes entering = 0, here = 0, most = kNothing;
  const auto is_last = [&](StorageId s, Moment at) {
    const std::size_t next = Find(s, at) + 1;
    return next == events_[s].size() || events_[s][next].makes;
  };
  for (const StorageId s : coming_[stage]) {
    if (is_last(s, Moment{stage} << kPlaceBits)) continue;  // nobody takes it: it does not come
    seen_[s] = count_;
    here += workload_->bytes[s];
  }
  for (const RunId id : stages_[stage]) {
    const Run& run = runs_[id];
    Bytes leaving = 0;
    const auto make = [&](StorageId s) {
      seen_[s] = count_;
      here += workload_->bytes[s];
      if (is_last(s, run.at)) leaving += workload_->bytes[s];
    };
    if (run.unit.valid()) {
      for (const StorageId s : units_->units[run.unit].returns) make(s);
    } else if (id != end_run()) {
      for (const StorageId s : workload_->births[OpId(id.index())]) make(s);
    }
    if (id != end_run()) most = std::max(most, here + run.scratch);
    ForNeeds(run, id, [&](StorageId s) {
      if (!is_last(s, run.at)) return;
      leaving += workload_->bytes[s];
      if (seen_[s] != count_) entering += workload_->bytes[s];
    });
    here -= leaving;
  }
  for (const StorageId s : leaving_[stage]) {
    if (seen_[s] != count_ && is_last(s, ((Moment{stage} + 1) << kPlaceBits) - 1)) entering += workload_->bytes[s];
  }
  return most == kNothing ? kNothing : entering + most;
}

std::vector<Bytes> Retention::CountedLevels() const {
  std::vector<Bytes> out(stages_.size(), 0);
  for (std::size_t t = 0; t < stages_.size(); ++t) {
    Bytes most = kNothing;
    for (const RunId id : stages_[t]) {
      if (id == end_run()) continue;
      Bytes bytes = state_ + runs_[id].scratch;
      for (const StorageId s : workload_->storage_ids()) {
        const std::vector<Event>& list = events_[s];
        for (std::size_t i = 0; i < list.size(); ++i) {
          if (!list[i].makes) continue;
          std::size_t last = i;
          while (last + 1 < list.size() && !list[last + 1].makes) ++last;
          if (list[i].at <= runs_[id].at && runs_[id].at <= list[last].at) bytes += workload_->bytes[s];
        }
      }
      most = std::max(most, bytes);
    }
    out[t] = most;
  }
  return out;
}

// ---- To look at

std::vector<StorageId> Retention::needs(RunId run) const {
  std::vector<StorageId> out;
  ForNeeds(runs_[run], run, [&](StorageId s) { out.push_back(s); });
  return out;
}

RunId Retention::RunAt(Moment moment) const {
  const std::vector<RunId>& stage = stages_[StageIndex(moment)];
  return *std::ranges::lower_bound(stage, moment, {}, [&](RunId run) { return runs_[run].at; });
}

RunId Retention::Next(RunId run) const {
  const Moment moment = runs_[run].at;
  const std::vector<RunId>& stage = stages_[StageIndex(moment)];
  const auto place = std::ranges::upper_bound(stage, moment, {}, [&](RunId r) { return runs_[r].at; });
  return place != stage.end() ? *place : stages_[StageIndex(moment) + 1].front();
}

bool Retention::IsUseless(RunId run) const {
  for (const StorageId s : units_->units[runs_[run].unit].returns) {
    const std::size_t next = Find(s, runs_[run].at) + 1;
    if (next < events_[s].size() && !events_[s][next].makes) return false;
  }
  return true;
}

}  // namespace ebbtide::plan
