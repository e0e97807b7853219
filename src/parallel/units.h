// Parts of a model that are gathered and reduced together, and when a step needs each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "parallel/passes.h"

namespace ebbtide::parallel {

struct Unit {
  std::string name;                   // "model.layers.0"; empty: what lies in no block
  std::vector<StorageId> parameters;  // in the order of the graph
  bool trained = false;               // a gradient is made for one of them
  // Half-open: [begin, end) of the ops that run in it or read its parameters. Equal: none does.
  OpId forward_begin, forward_end;
  OpId backward_begin, backward_end;

  bool InForward() const { return forward_begin < forward_end; }
  bool InBackward() const { return backward_begin < backward_end; }
};

struct Units {
  std::vector<Unit> units;                     // the blocks in the order of the forward pass, the rest last
  std::map<StorageId, std::size_t> unit_of;    // by parameter
  std::map<StorageId, StorageId> gradient_of;  // by parameter that is trained
};

// A block is a module of a list: "model.layers.0", "layer1.0", as trainers wrap models. Ops are of the unit that
// their layer lies in. `adapters_apart`: where a block has frozen parameters, every module with trained ones is a unit
// of its own, as peft has it for FullyShardedDataParallel.
Units FindUnits(const TrainingGraph& graph, bool adapters_apart = false);
// Likewise, used by the ops of one batch.
Units FindUnits(const TrainingGraph& graph, bool adapters_apart, const Pass& pass);

// "model.layers.0" of "model.layers.0.mlp.up_proj.weight"; empty where no module on the way has a number.
std::string BlockOf(const std::string& path);

}  // namespace ebbtide::parallel
