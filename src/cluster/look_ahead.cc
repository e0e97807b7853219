// What would become of the jobs that are known, by each of a policy's ways: a roll-out (Bertsekas, Tsitsiklis and Wu,
// 1997).
//
// A look ahead knows what a scheduler may know: who runs and who waits, how long each is predicted to take, what is set
// aside for it. It knows nothing of jobs that will come, nor of what jobs really take. Where predictions are right and
// nobody comes, what is promised is kept: the way that was taken is one of those that are followed the next time.
#include <algorithm>
#include <numeric>
#include <set>

#include "cluster/simulation.h"

namespace ebbtide::cluster {
namespace {

// Jobs that run or wait, up to which it is looked ahead: the work of one look grows with their square.
constexpr std::size_t kMostKnown = 200;
// What is left of a job that has taken longer than was predicted, seconds: nobody knows.
constexpr double kSoon = 1;

std::shared_ptr<const std::vector<std::size_t>> RanksOf(const Workload& workload, const Policy& policy) {
  std::vector<std::size_t> order(workload.jobs.size()), ranks(workload.jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t job) { return policy.Rank(workload.jobs[job]); });
  for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = i;
  return std::make_shared<const std::vector<std::size_t>>(std::move(ranks));
}

}  // namespace

void Simulation::GoBy(std::size_t way) {
  way_ = way;
  policy_ = ways_[way];
  ranks_.resize(ways_.size());
  if (!ranks_[way]) ranks_[way] = RanksOf(state_.workload, *policy_);
  Release();
  scores_.assign(scores_.size(), {});
  waiting_.Reorder(ranks_[way]);
}

void Simulation::ChooseWay() {
  if (ways_.size() < 2) return;
  const bool few = running_count_ + waiting_.count() + again_.size() <= kMostKnown;
  if (!few && way_ != 0) GoBy(0);
  if (!few || waiting_.empty()) return;
  const Known known = WhatIsKnown();
  std::size_t best_way = way_;
  Prospect best = ProspectOf(known, way_, {kForever, kForever});
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    if (way == way_) continue;
    const Prospect prospect = ProspectOf(known, way, best);
    if (prospect < best) best = prospect, best_way = way;
  }
  if (best_way != way_) GoBy(best_way);
}

Simulation::Known Simulation::WhatIsKnown() const {
  std::set<std::size_t> jobs(again_.begin(), again_.end());
  for (const Gpu& gpu : state_.gpus) {
    for (const Slot& slot : gpu.slots) jobs.insert(slot.job);
  }
  for (const auto& [first, kind] : waiting_.order()) {
    for (const auto& [rank, job] : waiting_.Of(kind)) jobs.insert(job);
  }
  Known out;
  out.workload.kinds = state_.workload.kinds;
  for (const std::size_t job : jobs) {
    out.numbers.emplace(job, out.workload.jobs.size());
    out.workload.jobs.push_back(state_.workload.jobs[job]);
    out.workload.jobs.back().work = state_.workload.jobs[job].expected();
    out.workload.jobs.back().foretold = 1;
  }
  return out;
}

Simulation::Prospect Simulation::ProspectOf(const Known& known, std::size_t way, const Prospect& best) const {
  Simulation ahead(state_.hardware, known.workload, *ways_[way], {.keep_runs = false});
  ahead.believed_ = true;
  ahead.next_ = known.workload.jobs.size();
  ahead.state_.TakeOver(state_);
  std::set<std::size_t> running;
  for (Gpu& gpu : ahead.state_.gpus) {
    for (Slot& slot : gpu.slots) {
      running.insert(slot.job);
      slot.job = known.numbers.at(slot.job);
    }
  }
  for (const std::size_t job : running) {
    Running& run = ahead.running_[known.numbers.at(job)] = running_[job];
    run.left = BelievedLeft(job);
    run.since = state_.now;
    ahead.Expect(known.numbers.at(job));
  }
  ahead.running_count_ = running.size();
  for (const std::size_t job : again_) ahead.again_.push_back(known.numbers.at(job));
  ahead.kept_again_ = kept_again_;
  for (const auto& [first, kind] : waiting_.order()) {
    for (const auto& [rank, job] : waiting_.Of(kind)) ahead.waiting_.Add(kind, known.numbers.at(job));
  }
  if (way == way_) {
    ahead.GoOnFrom(*this, known);
  } else {
    for (const std::size_t gpu : kept_) ahead.state_.gpus[gpu].closed = false;
  }
  ahead.Schedule();
  while (!ahead.events_.empty()) {
    ahead.Advance();
    if (ahead.last_end_ > best.end) return {kForever, kForever};
  }
  return {ahead.last_end_, ahead.completion_};
}

void Simulation::GoOnFrom(const Simulation& now, const Known& known) {
  if (now.kept_for_ != Waiting::kNever) {
    kept_ = now.kept_;
    kept_for_ = known.numbers.at(now.kept_for_);
  }
  std::size_t oldest = now.left_.size();
  for (const auto& [first, kind] : now.waiting_.order()) oldest = std::min(oldest, now.waiting_.looked(kind));
  left_.assign(now.left_.begin() + static_cast<std::ptrdiff_t>(oldest), now.left_.end());
  for (const auto& [first, kind] : now.waiting_.order()) {
    const std::size_t looked = now.waiting_.looked(kind);
    if (looked != Waiting::kNever) waiting_.Looked(kind, looked - oldest);
  }
}

double Simulation::BelievedLeft(std::size_t job) const {
  const Running& run = running_[job];
  const Job& of = state_.workload.jobs[job];
  const double left = run.left - run.rate * (state_.now - run.since);
  return of.foretold == 1 ? left : std::max(of.expected() - (of.work - left), kSoon);
}

}  // namespace ebbtide::cluster
