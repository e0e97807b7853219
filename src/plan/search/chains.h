// Storages that are nowhere, in groups that would have to be made again together, each with its cost: DTR's count of
// what giving up one more storage costs. A union-find whose members may leave.
#pragma once

#include <vector>

#include "plan/problem.h"

namespace ebbtide::plan {

class Chains {
 public:
  // The problem must outlive this.
  explicit Chains(const Problem& problem) : problem_(problem), node_(problem.workload->storages()) {}

  // Joins the groups of the storages that it is made from or that are made from it. What cannot be made again is left
  // out.
  void Add(StorageId s);
  // The group keeps its other members together, as if the one that leaves still linked them.
  void Remove(StorageId s);
  // Time to make the storage again, with the groups that it would join.
  Nanos CostWith(StorageId s);

 private:
  using Node = Id<struct ChainNodeTag>;

  bool Has(StorageId s) const { return node_[s].valid(); }
  // The root of the node's group.
  Node Find(Node node);

  const Problem& problem_;
  IdVector<StorageId, Node> node_;  // none: it is in no group
  IdVector<Node, Node> parent_;
  IdVector<Node, Nanos> cost_;  // of the group it is the root of
  std::vector<Node> groups_;    // that a sum has counted
};

}  // namespace ebbtide::plan
