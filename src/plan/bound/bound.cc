// The limit from single moments: each op at which memory is short, taken alone.
#include "plan/bound/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ebbtide::plan {
namespace {

// What is idle at one moment and comes back together when one op runs again.
struct Group {
  double bytes = 0, time = 0;
};

// The least time of an iteration in which `excess` bytes of the groups, and of others that cannot be made again, are
// away throughout an op of `during` ns, with `before` ns of the plain step before it and `after` behind it.
double LeastTime(std::vector<Group> groups, double excess, double before, double during, double after,
                 const Problem& problem) {
  const bool swaps = problem.limits.may_swap;
  const double out_rate = problem.link.to_host / 1e9, in_rate = problem.link.to_device / 1e9;  // bytes per ns
  std::ranges::sort(groups, [](const Group& a, const Group& b) { return a.time * b.bytes < b.time * a.bytes; });
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](double swapped, double again) {
    if (swapped < 0 || (swapped > 0 && !swaps)) return;
    least = std::min(least, std::max(before, swapped / out_rate) + during + std::max(after + again, swapped / in_rate));
  };
  // Over the share that is made again, cheapest bytes first: a convex function, linear between the groups' ends and the
  // points at which one side of a maximum overtakes the other.
  double made = 0, cost = 0;
  const auto between = [&](double bytes, double time) {  // of the group at hand
    const double slope = bytes > 0 ? time / bytes : 0;
    const auto at = [&](double part) {
      if (part >= 0 && part <= bytes) consider(excess - made - part, cost + slope * part);
    };
    at(0);
    at(std::min(bytes, excess - made));
    if (!swaps) return;
    at(excess - made - before * out_rate);
    at((excess - made - in_rate * (after + cost)) / (1 + in_rate * slope));
  };
  for (const Group& group : groups) {
    between(group.bytes, group.time);
    made += group.bytes;
    cost += group.time;
    if (made >= excess) break;
  }
  if (made < excess) between(0, 0);
  return least;
}

double BoundAt(const Problem& problem, OpId op, const IdVector<OpId, bool>& again) {
  const sim::Workload& workload = *problem.workload;
  IdVector<OpId, Group> by_maker(workload.ops());
  for (const StorageId s : workload.storage_ids()) {
    const OpId maker = workload.born[s];
    if (!maker.valid() || maker >= op || !again[maker]) continue;
    const auto uses = workload.uses[s];
    const auto next = std::ranges::lower_bound(uses, op);
    if (next == uses.end() ? !workload.outlives[s] : *next == op) continue;
    by_maker[maker].bytes += static_cast<double>(workload.bytes[s]);
    by_maker[maker].time = static_cast<double>(workload.time[maker]);
  }
  std::vector<Group> groups;
  for (const Group& group : by_maker) {
    if (group.bytes != 0) groups.push_back(group);
  }
  const double excess = static_cast<double>(problem.live[op] - problem.limits.budget);
  const auto before = static_cast<double>(problem.clock[op]);
  const auto after = static_cast<double>(problem.clock.back() - problem.clock[op.Next()]);
  return LeastTime(std::move(groups), excess, before, static_cast<double>(workload.time[op]), after, problem);
}

}  // namespace

std::vector<OpId> ShortMoments(const Problem& problem, std::size_t count) {
  std::vector<OpId> all, out;
  for (const OpId op : problem.live.ids()) {
    if (problem.live[op] > problem.limits.budget) all.push_back(op);
  }
  count = std::min(count, all.size());
  for (std::size_t parts = 1; parts <= all.size() && out.size() < count; ++parts) {
    for (std::size_t i = 0; i < parts && out.size() < count; ++i) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(all.size() * i / parts);
      const auto end = all.begin() + static_cast<std::ptrdiff_t>(all.size() * (i + 1) / parts);
      const OpId most =
          *std::max_element(begin, end, [&](OpId a, OpId b) { return problem.live[a] < problem.live[b]; });
      if (std::ranges::find(out, most) == out.end()) out.push_back(most);
    }
  }
  std::ranges::sort(out);
  return out;
}

IdVector<OpId, bool> MayRunAgain(const Problem& problem) {
  const sim::Workload& workload = *problem.workload;
  IdVector<OpId, bool> out(workload.ops(), false);
  if (!problem.limits.may_recompute) return out;
  for (const StorageId s : workload.storage_ids()) {
    for (const OpId op : workload.recipe[s]) out[op] = true;
  }
  return out;
}

Nanos BoundFromMoments(const Problem& problem) {
  const IdVector<OpId, bool> again = MayRunAgain(problem);
  const auto plain = static_cast<double>(problem.clock.back());
  double best = plain;
  for (const OpId op : ShortMoments(problem, 48)) {
    if (IsLate(problem)) break;
    const double bound = BoundAt(problem, op, again);
    if (std::isfinite(bound)) best = std::max(best, bound);
  }
  // A billionth for rounding. Times are whole: what is above the limit is at least the next.
  return std::max(problem.clock.back(), static_cast<Nanos>(std::ceil(best * (1 - 1e-9))));
}

// Collectives beside computation: a schedule takes no less than it would if they took no time, which is what the limits
// below speak of, and no less than the plain step with them.
Nanos LowerBound(const Problem& problem, const BoundOptions& options) {
  if (problem.live.empty()) return 0;
  const Nanos plain = sim::PlainTime(*problem.workload);
  if (Floor(problem) > problem.limits.budget) return plain;
  const Nanos simple = std::max(plain, BoundFromMoments(problem));
  if (problem.workload->ops() > options.most_ops) return simple;
  BoundOptions program = options;
  program.state_may_leave |= problem.limits.may_move_state;
  return std::max(simple, BoundFromProgram(problem, program));
}

}  // namespace ebbtide::plan
