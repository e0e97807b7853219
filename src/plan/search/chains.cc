// Unites groups as storages go, and sums what making them again takes.
#include "plan/search/chains.h"

#include <algorithm>

namespace ebbtide::plan {

Chains::Node Chains::Find(Node node) {
  while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
  return node;
}

void Chains::Add(StorageId s) {
  if (problem_.workload->recipe[s].empty()) return;
  const Node own = parent_.end_id();
  node_[s] = own;
  parent_.push_back(own);
  cost_.push_back(problem_.again[s]);
  for (const StorageId other : problem_.neighbours[s]) {
    if (!Has(other)) continue;
    const Node group = Find(node_[other]);
    if (group == own) continue;
    parent_[group] = own;
    cost_[own] += cost_[group];
  }
}

void Chains::Remove(StorageId s) {
  if (!Has(s)) return;
  cost_[Find(node_[s])] -= problem_.again[s];
  node_[s] = Node();
}

Nanos Chains::CostWith(StorageId s) {
  groups_.clear();
  Nanos cost = problem_.again[s];
  for (const StorageId other : problem_.neighbours[s]) {
    if (!Has(other)) continue;
    const Node group = Find(node_[other]);
    if (std::ranges::find(groups_, group) != groups_.end()) continue;
    groups_.push_back(group);
    cost += cost_[group];
  }
  return cost;
}

}  // namespace ebbtide::plan
