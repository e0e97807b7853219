#include "plan/chains.h"

#include <algorithm>

namespace ebbtide::plan {

Index Chains::Find(Index node) {
  while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
  return node;
}

void Chains::Add(Index s) {
  if (problem_.workload->recipe[s].empty()) return;
  const auto own = static_cast<Index>(parent_.size());
  node_[s] = own;
  parent_.push_back(own);
  cost_.push_back(problem_.again[s]);
  for (const Index other : problem_.neighbours[s]) {
    if (!Has(other)) continue;
    const Index group = Find(node_[other]);
    if (group == own) continue;
    parent_[group] = own;
    cost_[own] += cost_[group];
  }
}

void Chains::Remove(Index s) {
  if (!Has(s)) return;
  cost_[Find(node_[s])] -= problem_.again[s];
  node_[s] = sim::kNone;
}

Nanos Chains::CostWith(Index s) {
  groups_.clear();
  Nanos cost = problem_.again[s];
  for (const Index other : problem_.neighbours[s]) {
    if (!Has(other)) continue;
    const Index group = Find(node_[other]);
    if (std::ranges::find(groups_, group) != groups_.end()) continue;
    groups_.push_back(group);
    cost += cost_[group];
  }
  return cost;
}

}  // namespace ebbtide::plan
