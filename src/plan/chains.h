// Storages that are nowhere, in groups that would have to be made again together, each with its cost: DTR's count of
// what giving up one more storage costs. A union-find whose members may leave.
#pragma once

#include <vector>

#include "plan/problem.h"

namespace ebbtide::plan {

class Chains {
 public:
  // The problem may not go before it.
  explicit Chains(const Problem& problem) : problem_(problem), node_(problem.workload->storages(), sim::kNone) {}

  // Joins the groups of the storages that it is made from or that are made from it. What cannot be made again is left
  // out.
  void Add(Index s);
  // The group keeps its other members together, as if the one that leaves still linked them.
  void Remove(Index s);
  // Time to make the storage again, with the groups that it would join.
  Nanos CostWith(Index s);

 private:
  bool Has(Index s) const { return node_[s] != sim::kNone; }
  Index Find(Index node);

  const Problem& problem_;
  std::vector<Index> node_;    // by storage
  std::vector<Index> parent_;  // by node
  std::vector<Nanos> cost_;    // by node, of the group it is the root of
  std::vector<Index> groups_;  // that a sum has counted
};

}  // namespace ebbtide::plan
