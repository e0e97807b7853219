// Leaves out storages that a search need not decide about, and ties those that one op makes.
#include "plan/search/candidates.h"

#include <algorithm>
#include <map>

namespace ebbtide::plan {
namespace {

// For each op and one more: how many ops before it are short of memory.
IdVector<OpId, int> CountShort(const Problem& problem) {
  IdVector<OpId, int> count{0};
  for (const Bytes live : problem.live) count.push_back(count.back() + (live > problem.limits.budget ? 1 : 0));
  return count;
}

bool IsIdleWhenShort(const Problem& problem, StorageId s, const IdVector<OpId, int>& count) {
  const auto uses = problem.workload->uses[s];
  if (problem.workload->IsState(s) && count[uses.front()] > 0) return true;
  for (std::size_t i = 1; i < uses.size(); ++i) {
    if (count[uses[i]] > count[uses[i - 1].Next()]) return true;
  }
  return false;
}

}  // namespace

Candidates FindCandidates(const Problem& problem, const CandidateOptions& options) {
  const sim::Workload& workload = *problem.workload;
  const IdVector<OpId, int> count = CountShort(problem);
  const Bytes most = problem.live.empty() ? 0 : *std::ranges::max_element(problem.live);
  const Bytes shortage = std::max<Bytes>(0, most - problem.limits.budget);
  const auto least = static_cast<Bytes>(static_cast<double>(shortage) * options.least_share);
  Candidates out;
  std::map<std::size_t, std::vector<StorageId>> by_maker;  // state, which no op makes, behind all ops
  for (const StorageId s : workload.storage_ids()) {
    const bool is_state = workload.IsState(s);
    if (is_state && !IsMovableState(problem, s)) continue;
    if (workload.uses[s].size() < (is_state ? 1 : 2) || workload.bytes[s] == 0) continue;
    ++out.considered;
    if (!options.reduce) {
      out.groups.Add(std::vector{s});
    } else if (IsIdleWhenShort(problem, s, count)) {
      by_maker[is_state ? workload.ops() + s.index() : workload.born[s].index()].push_back(s);
    }
  }
  for (auto& [maker, group] : by_maker) {
    std::ranges::stable_sort(group, std::greater<>(), [&](StorageId s) { return workload.bytes[s]; });
    if (workload.bytes[group.front()] >= least) out.groups.Add(group);
  }
  return out;
}

}  // namespace ebbtide::plan
