// Groups of storages that would have to be made again together, each with its cost: a union-find whose members may leave.
#pragma once

#include <vector>

#include "base/units.h"
#include "sim/workload.h"

namespace ebbtide::plan {

class Chains {
 public:
  explicit Chains(std::size_t storages) : node_(storages, sim::kNone) {}

  bool Has(sim::Index s) const { return node_[s] != sim::kNone; }
  void Add(sim::Index s, Nanos cost);
  void Join(sim::Index a, sim::Index b);
  // The group keeps its other members together, as if the one that leaves still linked them.
  void Remove(sim::Index s, Nanos cost);
  sim::Index GroupOf(sim::Index s) { return Find(node_[s]); }
  Nanos CostOf(sim::Index group) const { return cost_[group]; }

 private:
  sim::Index Find(sim::Index node);
  std::vector<sim::Index> node_;    // by storage
  std::vector<sim::Index> parent_;  // by node
  std::vector<Nanos> cost_;         // by node, of the group it is the root of
};

}  // namespace ebbtide::plan
