#include "plan/chains.h"

namespace ebbtide::plan {

using sim::Index;

Index Chains::Find(Index node) {
  while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
  return node;
}

void Chains::Add(Index s, Nanos cost) {
  node_[s] = static_cast<Index>(parent_.size());
  parent_.push_back(node_[s]);
  cost_.push_back(cost);
}

void Chains::Join(Index a, Index b) {
  const Index x = GroupOf(a), y = GroupOf(b);
  if (x == y) return;
  parent_[y] = x;
  cost_[x] += cost_[y];
}

void Chains::Remove(Index s, Nanos cost) {
  cost_[GroupOf(s)] -= cost;
  node_[s] = sim::kNone;
}

}  // namespace ebbtide::plan
