// Derives from a workload what planners ask for again and again: clocks, costs, live bytes, gaps and neighbours.
#include "plan/problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ebbtide::plan {
namespace {

// `is_there`: from the beginning of the step on.
OpId LongestGap(std::span<const OpId> uses, const IdVector<OpId, Nanos>& clock, bool is_there) {
  OpId end;
  Nanos longest = -1;
  if (is_there && !uses.empty()) longest = clock[uses.front()], end = uses.front();
  for (std::size_t i = 1; i < uses.size(); ++i) {
    const Nanos gap = clock[uses[i]] - clock[uses[i - 1].Next()];
    if (gap > longest) longest = gap, end = uses[i];
  }
  return end;
}

sim::Lists<StorageId, StorageId> Neighbours(const sim::Workload& workload) {
  IdVector<StorageId, std::vector<StorageId>> lists(workload.storages());
  for (const StorageId s : workload.storage_ids()) {
    for (const OpId op : workload.recipe[s]) {
      for (const StorageId input : workload.needs[op]) {
        if (input == s || workload.IsState(input)) continue;
        lists[s].push_back(input);
        lists[input].push_back(s);
      }
    }
  }
  sim::Lists<StorageId, StorageId> out;
  out.Reserve(lists.size());
  for (auto& list : lists) {
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
    out.Add(list);
  }
  return out;
}

}  // namespace

Problem MakeProblem(const sim::Workload& workload, const Link& link, const Limits& limits) {
  Problem out;
  out.workload = &workload;
  out.link = link;
  out.limits = limits;
  const std::size_t ops = workload.ops();
  out.clock.resize(ops + 1, 0);
  std::partial_sum(workload.time.begin(), workload.time.end(), out.clock.begin() + 1);
  out.again.resize(workload.storages(), 0);
  for (const StorageId s : workload.storage_ids()) {
    for (const OpId op : workload.recipe[s]) out.again[s] += workload.Cost(op);
  }
  for (const StorageId s : workload.storage_ids()) {
    const bool lasting = workload.recipe[s].empty();
    const double cost = lasting ? 1e12 : static_cast<double>(out.again[s] + 1);
    const double size = std::log2(static_cast<double>(std::max<Bytes>(workload.bytes[s], 1)));
    out.size.push_back(static_cast<float>(size));
    out.value.push_back(static_cast<float>(std::log2(cost) - size));
  }
  IdVector<OpId, Bytes> change(ops + 1, 0);
  for (const StorageId s : workload.storage_ids()) {
    const auto uses = workload.uses[s];
    const bool is_there = workload.IsState(s);
    if (uses.empty() && !is_there) continue;
    change[is_there ? OpId(0) : workload.born[s]] += workload.bytes[s];
    if (!workload.outlives[s]) change[uses.back().Next()] -= workload.bytes[s];
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  change.pop_back();
  for (const OpId op : workload.op_ids()) {
    Bytes needed = workload.workspace[op], before = change[op];
    change[op] += needed;
    for (const StorageId s : workload.needs[op]) needed += workload.bytes[s];
    for (const StorageId s : workload.births[op]) needed += workload.bytes[s], before -= workload.bytes[s];
    out.needed.push_back(needed);
    out.before.push_back(before);
  }
  out.live = std::move(change);
  out.neighbours = Neighbours(workload);
  for (const StorageId s : workload.storage_ids())
    out.longest_gap.push_back(LongestGap(workload.uses[s], out.clock, IsMovableState(out, s)));
  return out;
}

Bytes Floor(const Problem& problem, OpId* op) {
  const sim::Workload& workload = *problem.workload;
  // What is there throughout: the state, unless it may be moved. Even then all of it is there when the step begins and
  // when it ends.
  Bytes fixed = 0, state = 0;
  IdVector<StorageId, bool> is_fixed(workload.storages(), false);
  for (const StorageId s : workload.storage_ids()) {
    if (!workload.IsState(s)) continue;
    state += workload.bytes[s];
    if (IsMovableState(problem, s)) continue;
    is_fixed[s] = true;
    fixed += workload.bytes[s];
  }
  Bytes most = state;
  if (op && workload.ops() > 0) *op = OpId(0);
  for (const OpId i : workload.op_ids()) {
    Bytes also = workload.workspace[i];
    for (const StorageId s : workload.needs[i]) also += is_fixed[s] ? 0 : workload.bytes[s];
    for (const StorageId s : workload.births[i]) also += is_fixed[s] ? 0 : workload.bytes[s];
    if (fixed + also <= most) continue;
    most = fixed + also;
    if (op) *op = i;
  }
  return most;
}

}  // namespace ebbtide::plan
