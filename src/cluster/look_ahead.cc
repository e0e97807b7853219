// What would become of the jobs that are known, by each of a policy's ways: a roll-out (Bertsekas, Tsitsiklis and Wu,
// 1997), and from the best of them on by a local search over the order in which the jobs that wait are asked.
//
// A look ahead knows what a scheduler may know: who runs and who waits, how long each is predicted to take, what is set
// aside for it. It knows nothing of jobs that will come, nor of what jobs really take. Where predictions are right and
// nobody comes, what is promised is kept: the course that was taken is one of those that are followed the next time.
// What counts is the last end, if nobody comes any more, and as much the moment from which GPUs are free in the mean,
// if others come.
#include <algorithm>
#include <numeric>
#include <set>

#include "cluster/simulation.h"

namespace ebbtide::cluster {
namespace {

// Jobs that run or wait, up to which it is looked ahead: the work of one look grows with their square.
constexpr std::size_t kMostKnown = 200;
// Orders of the jobs that wait that are tried in one look, each with one job elsewhere than in the best so far: so many
// jobs are followed to their ends for them, at most.
constexpr std::size_t kMostFollowed = 2000;
constexpr std::size_t kMostMoves = 30;
// What is left of a job that has taken longer than was predicted, seconds: nobody knows.
constexpr double kSoon = 1;

}  // namespace

Simulation::Ranks Simulation::RanksOf(const Workload& workload, const Policy& policy) {
  std::vector<std::size_t> order(workload.jobs.size()), ranks(workload.jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t job) { return policy.Rank(workload.jobs[job]); });
  for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = i;
  return std::make_shared<const std::vector<std::size_t>>(std::move(ranks));
}

void Simulation::GoBy(std::size_t way, Ranks ranks) {
  way_ = way;
  policy_ = ways_[way];
  Release();
  scores_.assign(scores_.size(), {});
  waiting_.Reorder(std::move(ranks));
}

void Simulation::ChooseWay() {
  if (ways_.size() < 2) return;
  const bool few = running_count_ + waiting_.count() + again_.size() <= kMostKnown;
  if (!few && !is_usual_) GoBy(0, RanksOf(state_.workload, *ways_[0]));
  is_usual_ |= !few;
  if (!few || waiting_.empty()) return;
  const Known known = WhatIsKnown();
  Course best{.way = way_, .ranks = nullptr};
  Prospect prospect = ProspectOf(known, best, {kForever, kForever});
  const auto consider = [&](Course course) {
    const Prospect of = ProspectOf(known, course, prospect);
    if (of < prospect) prospect = of, best = std::move(course);
  };
  for (std::size_t way = 0; way < ways_.size(); ++way) consider({way, RanksOf(known.workload, *ways_[way])});
  const std::size_t moves = waiting_.count() > 1 ? std::min(kMostMoves, kMostFollowed / known.workload.jobs.size()) : 0;
  for (std::size_t move = 0; move < moves; ++move) {
    const Ranks moved = Moved(known, best.ranks ? best.ranks : OwnRanks(known));
    if (moved) consider({best.way, moved});
  }
  if (!best.ranks) return;
  GoBy(best.way, ForAll(known, *best.ranks));
  is_usual_ = false;
}

Simulation::Ranks Simulation::Moved(const Known& known, const Ranks& ranks) {
  std::vector<std::size_t> waiting;
  for (const auto& [first, kind] : waiting_.order()) {
    for (const auto& [rank, job] : waiting_.Of(kind)) waiting.push_back(known.numbers.at(job));
  }
  std::ranges::sort(waiting, {}, [&](std::size_t job) { return (*ranks)[job]; });
  const auto from = waiting.begin() + static_cast<std::ptrdiff_t>(random_() % waiting.size());
  const auto to = waiting.begin() + static_cast<std::ptrdiff_t>(random_() % waiting.size());
  const auto arrival = [&](std::size_t job) { return known.workload.jobs[job].arrival; };
  const bool too_far =
      from < to ? std::any_of(from + 1, to + 1,
                              [&](std::size_t job) { return arrival(job) > arrival(*from) + known.longest; })
                : std::any_of(to, from, [&](std::size_t job) { return arrival(*from) > arrival(job) + known.longest; });
  if (too_far) return nullptr;
  from < to ? std::rotate(from, from + 1, to + 1) : std::rotate(to, from, from + 1);
  std::vector<std::size_t> out(ranks->size(), waiting.size());
  for (std::size_t i = 0; i < waiting.size(); ++i) out[waiting[i]] = i;
  return std::make_shared<const std::vector<std::size_t>>(std::move(out));
}

Simulation::Ranks Simulation::OwnRanks(const Known& known) const {
  std::vector<std::size_t> out(known.workload.jobs.size());
  for (const auto& [job, number] : known.numbers) out[number] = waiting_.rank(job);
  return std::make_shared<const std::vector<std::size_t>>(std::move(out));
}

Simulation::Ranks Simulation::ForAll(const Known& known, const std::vector<std::size_t>& ranks) const {
  std::vector<std::size_t> out(state_.workload.jobs.size());
  std::iota(out.begin(), out.end(), ranks.size());
  for (const auto& [job, number] : known.numbers) out[job] = ranks[number];
  return std::make_shared<const std::vector<std::size_t>>(std::move(out));
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
    out.longest = std::max(out.longest, out.workload.jobs.back().work);
  }
  return out;
}

Simulation::Prospect Simulation::ProspectOf(const Known& known, const Course& course, const Prospect& best) const {
  Simulation ahead(state_.hardware, known.workload, *ways_[course.way], {.keep_runs = false});
  ahead.GoBy(0, course.ranks ? course.ranks : OwnRanks(known));
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
  ahead.gpu_ends_.assign(state_.gpus.size(), state_.now);
  ahead.gpu_ends_sum_ = state_.now * static_cast<double>(state_.gpus.size());
  for (const std::size_t job : again_) ahead.again_.push_back(known.numbers.at(job));
  ahead.kept_again_ = kept_again_;
  for (const auto& [first, kind] : waiting_.order()) {
    for (const auto& [rank, job] : waiting_.Of(kind)) ahead.waiting_.Add(kind, known.numbers.at(job));
  }
  if (!course.ranks) {
    ahead.GoOnFrom(*this, known);
  } else {
    for (const std::size_t gpu : kept_) ahead.state_.gpus[gpu].closed = false;
  }
  ahead.Schedule();
  while (!ahead.events_.empty()) {
    ahead.Advance();
    if (ahead.Ends() > best.ends) return {kForever, kForever};
  }
  return {ahead.Ends(), ahead.completion_};
}

double Simulation::Ends() const {
  return last_end_ + gpu_ends_sum_ / static_cast<double>(std::max<std::size_t>(1, gpu_ends_.size()));
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
