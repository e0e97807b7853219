// Proposes changes to decisions and takes those that pay.
#include "plan/decide/improve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ebbtide::plan {
namespace {

constexpr int kMostDepth = 24;      // of a chain of runs that is added at once
constexpr int kMostChanges = 96;    // of one proposal
constexpr int kTries = 24;          // to find a storage worth dropping
constexpr int kPerAdjustment = 64;  // proposals between two looks at the price and the overloaded stages

constexpr double kDearest = 64;  // price of memory over that at the beginning

}  // namespace

Improver::Improver(const Problem& problem, const Units& units, const std::vector<Absence>& absences, std::uint64_t seed)
    : problem_(problem), workload_(*problem.workload), units_(units), state_(problem, units, absences), random_(seed) {
  double sum = 0;
  for (const StorageId s : workload_.storage_ids()) {
    if (!units.of[s].valid() || workload_.bytes[s] == 0) continue;
    const auto uses = workload_.uses[s];
    const std::size_t last = workload_.outlives[s] ? workload_.ops() : uses.back().index();
    const std::size_t length = last - uses.front().index();
    if (length < 2) continue;
    candidates_.push_back(s);
    weights_.push_back(sum += std::sqrt(static_cast<double>(workload_.bytes[s]) * static_cast<double>(length)));
  }
  Nanos total = 0;
  for (const Unit& unit : units.units) total += unit.parts.front().time;
  scale_ =
      std::max(1.0, static_cast<double>(total) / static_cast<double>(std::max<std::size_t>(units.units.size(), 1)));
}

void Improver::Start(const std::vector<RunAgain>& runs) {
  state_.Load(runs);
  log_.clear();
  if (price_ == 0) {
    // As if making everything again once would pay for all that is above the budget.
    const auto total = static_cast<double>(problem_.clock.back());
    Bytes sum = 0;
    for (std::size_t t = 0; t < workload_.ops(); ++t) sum += state_.levels()[t];
    price_ = first_price_ = 4 * total / static_cast<double>(std::max<Bytes>(sum, 1));
  }
  Keep();
}

void Improver::Keep() {
  const Bytes excess = state_.levels().excess();
  if (has_best_ && std::pair(excess, state_.again()) >= std::pair(best_.excess, best_.again)) return;
  has_best_ = true;
  best_ = {state_.Save(), state_.again(), excess};
}

// ---- Changes

Moment Improver::Add(UnitId unit, RunId before) {
  ++evaluations_;
  --allowance_;
  if (!state_.May(unit, Retention::StageOf(state_.at(before)))) return 0;
  const Moment at = state_.Add(unit, before);
  if (at != 0) log_.push_back({true, unit, at});
  return at;
}

void Improver::Remove(Moment at) {
  ++evaluations_;
  --allowance_;
  log_.push_back({false, state_.unit(state_.RunAt(at)), at});
  state_.RemoveAt(at);
}

void Improver::UndoTo(std::size_t mark) {
  while (log_.size() > mark) {
    const Change change = log_.back();
    log_.pop_back();
    change.added ? state_.RemoveAt(change.at) : state_.AddAt(change.unit, change.at);
  }
}

// Adds the run, and where what it needs would have to be retained for it, runs that make that again, if they pay.
void Improver::Grow(UnitId unit, RunId before, int depth) {
  const Moment at = Add(unit, before);
  if (at == 0 || depth >= kMostDepth) return;
  const RunId run = state_.RunAt(at);
  for (const StorageId s : state_.needs(run)) {
    if (allowance_ <= 0) return;
    const UnitId maker = units_.of[s];
    if (!maker.valid()) continue;
    const auto events = state_.events(s);
    const auto place = std::ranges::lower_bound(events, at, {}, &Retention::Event::at);
    const auto before_it = std::prev(place);
    // Others want it later, or it is there anyway.
    if (Retention::StageOf(before_it->at).index() + 1 >= Retention::StageOf(at).index()) continue;
    const std::size_t mark = log_.size();
    const double cost = Cost();
    Grow(maker, run, depth + 1);
    const double change = Cost() - cost;
    if (change > 0 && random_.Uniform() > 0.05) UndoTo(mark);
  }
}

// What only served a run that goes goes too.
void Improver::RemoveWithFeeders(Moment at) {
  const std::vector<StorageId> needs = state_.needs(state_.RunAt(at));
  Remove(at);
  for (const StorageId s : needs) {
    const auto events = state_.events(s);
    auto place = std::ranges::lower_bound(events, at, {}, &Retention::Event::at);
    while (place != events.begin() && !std::prev(place)->makes) --place;
    if (place == events.begin()) continue;
    const Retention::Event made = *std::prev(place);
    if (made.run.valid() && state_.unit(made.run).valid() && state_.IsUseless(made.run)) RemoveWithFeeders(made.at);
  }
}

// ---- Proposals. Each leaves its changes in the log; false: it found nothing to change.

// Drops a storage while it is retained over stages above the budget, and makes it again for its next use.
bool Improver::Shorten() {
  if (candidates_.empty()) return false;
  for (int i = 0; i < kTries; ++i) {
    const double at = random_.Uniform() * weights_.back();
    const auto index = static_cast<std::size_t>(std::ranges::upper_bound(weights_, at) - weights_.begin());
    const StorageId s = candidates_[std::min(index, candidates_.size() - 1)];
    const auto events = state_.events(s);
    const std::size_t k = 1 + random_.Below(events.size() - 1);
    if (events[k].makes) continue;
    const std::size_t from = Retention::StageOf(events[k - 1].at).index();
    const std::size_t to = Retention::StageOf(events[k].at).index();
    if (to <= from) continue;
    const std::size_t first = std::min(from + 1, to);
    if (!state_.levels().AnyAbove(first, to + 1)) continue;
    const RunId before = events[k].run;
    if (!before.valid()) continue;
    if (!state_.May(units_.of[s], OpId(to))) continue;
    Grow(units_.of[s], before, 0);
    return !log_.empty();
  }
  return false;
}

bool Improver::DropSome() {
  if (state_.active().empty()) return false;
  RemoveWithFeeders(state_.at(state_.active()[random_.Below(state_.active().size())]));
  return true;
}

// A run again happens at another moment: just before what it makes is first taken, or just behind the run that was the
// last to take one of its needs, or anywhere between.
bool Improver::Move() {
  if (state_.active().empty()) return false;
  const RunId run = state_.active()[random_.Below(state_.active().size())];
  const Moment at = state_.at(run);
  const UnitId unit = state_.unit(run);
  const Unit& described = units_.units[unit];
  RunId target;
  if (random_.Uniform() < 0.5) {
    Moment first = ~Moment{0};
    for (const StorageId s : described.returns) {
      const auto events = state_.events(s);
      const auto next = std::ranges::upper_bound(events, at, {}, &Retention::Event::at);
      if (next != events.end() && !next->makes && next->at < first) first = next->at, target = next->run;
    }
    if (!target.valid() || state_.Next(run) == target) return false;
  } else {
    const std::vector<StorageId> needs = state_.needs(run);
    if (needs.empty()) return false;
    const StorageId s = needs[random_.Below(needs.size())];
    const auto events = state_.events(s);
    const auto place = std::ranges::lower_bound(events, at, {}, &Retention::Event::at);
    if (!std::prev(place)->run.valid()) return false;
    target = state_.Next(std::prev(place)->run);
    if (target == run) return false;
  }
  if (!state_.May(unit, Retention::StageOf(state_.at(target)))) return false;
  Remove(at);
  Add(unit, target);
  return true;
}

// One goes, and others do what it did.
bool Improver::Exchange() {
  const Bytes excess = state_.levels().excess();
  if (!DropSome()) return false;
  for (int i = 0; i < 3 && state_.levels().excess() > excess && allowance_ > 0; ++i) {
    if (!Shorten()) break;
  }
  return true;
}

bool Improver::Propose() {
  allowance_ = kMostChanges;
  const double u = random_.Uniform();
  if (state_.levels().excess() > 0) {
    if (u < 0.65) return Shorten();
    if (u < 0.75) return DropSome();
    if (u < 0.88) return Move();
    return Exchange();
  }
  if (u < 0.35) return DropSome();
  if (u < 0.6) return Move();
  return Exchange();
}

// One proposal, taken or undone.
void Improver::Step() {
  const double cost = Cost();
  const std::int64_t before = evaluations_;
  const bool changed = Propose();
  if (evaluations_ == before) ++evaluations_;  // looking for a change in vain counts as well
  if (!changed) return;
  const double change = Cost() - cost;
  const double heat = temperature_ * std::max(1.0, price_ / first_price_);
  if (change <= 0 || random_.Uniform() < std::exp(-change / heat)) {
    log_.clear();
    if (state_.levels().budget() == problem_.limits.budget) Keep();
  } else {
    UndoTo(0);
  }
}

// The price of memory follows how often there is enough of it.
void Improver::Adjust(int enough) {
  if (enough < kPerAdjustment / 4) price_ = std::min(price_ * 1.15, kDearest * first_price_);
  if (enough == 0) state_.Learn();
  if (enough > kPerAdjustment / 2) price_ /= 1.1;
}

void Improver::SetHeat(double heat) {
  temperature_ = scale_ * std::exp(std::log(0.5) * heat + std::log(0.002) * (1 - heat));
}

bool Improver::Fit(std::int64_t evaluations, double heat, const std::function<bool()>& stop) {
  const Bytes goal = problem_.limits.budget;
  const std::int64_t end = evaluations_ + evaluations;
  Bytes peak = state_.peak(), step = std::max<Bytes>(1, (peak - goal) / 24);
  // Changes after which a target that was not reached is moved closer.
  const std::int64_t patience = std::max<std::int64_t>(evaluations / 3, 1000);
  std::int64_t until = evaluations_ + patience;
  SetHeat(heat);
  lowest_ = state_.Save();
  state_.SetBudget(std::max(goal, peak - step));
  int enough = 0;
  for (std::int64_t i = 0; evaluations_ < end; ++i) {
    if (i % kPerAdjustment == 0) {
      if (stop && stop()) break;
      if (i > 0) Adjust(enough);
      enough = 0;
      if (evaluations_ > until && step > 1) {
        step /= 2;
        state_.SetBudget(std::max(goal, peak - step));
        until = evaluations_ + patience;
      }
    }
    Step();
    if (state_.levels().excess() > 0) continue;
    ++enough;
    peak = state_.peak();
    lowest_ = state_.Save();
    if (peak <= goal) break;
    state_.SetBudget(std::max(goal, peak - step));
    until = evaluations_ + patience;
  }
  state_.SetBudget(goal);
  if (state_.peak() > peak) state_.Load(lowest_);
  Keep();
  return peak <= goal;
}

void Improver::Run(std::int64_t evaluations, double warm, double cold, const std::function<bool()>& stop) {
  const std::int64_t begin = evaluations_, end = evaluations_ + evaluations;
  int enough = 0;
  for (std::int64_t i = 0; evaluations_ < end; ++i) {
    if (i % kPerAdjustment == 0) {
      if (stop && stop()) return;
      SetHeat(warm + (cold - warm) * static_cast<double>(evaluations_ - begin) / static_cast<double>(evaluations));
      if (i > 0) Adjust(enough);
      enough = 0;
    }
    Step();
    enough += state_.levels().excess() == 0;
  }
}

}  // namespace ebbtide::plan
