// The Plan: where every storage of a training step is at every moment, so that it fits a budget.   ◀ start reading here
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "sim/schedule.h"

namespace ebbtide::plan {

struct Plan {
  std::string graph_name;
  std::string graph_hash;  // of the graph it is for, see graph/hash.h
  std::string policy;      // who made it
  std::string gpu;         // whose op times it was made with; empty: the graph brought its own
  // The order of the graph's ops in which they run: order[i] comes at place i, and is op i of the schedule. Empty: the
  // graph's own.
  std::vector<OpId> order;
  Bytes budget = 0;
  Bytes alignment = 512;  // of every address; sizes are rounded up to it
  Link link;
  sim::Schedule schedule;

  // ---- Predicted
  Nanos time = 0;
  Bytes peak = 0;        // one past the highest address in use: fragmentation included
  Nanos plain_time = 0;  // of the step without a plan
  Bytes plain_peak = 0;
};

// A readable JSON text that ends in a checksum of what is before it.
std::string PlanJson(const Plan& plan);
// `place` opens the errors: the file the text came from. An edited plan is refused.
Result<Plan> ParsePlan(std::string_view text, const std::string& place);

// Whether the plan is for this graph, and valid on it.
Status CheckPlan(const Plan& plan, const TrainingGraph& graph);

// The graph with its ops in the plan's order, and the plan for that graph: without an order of its own, as the engine
// takes it. Fails where the plan is not for this graph or its order does not compute the same.
struct Ordered {
  TrainingGraph graph;
  Plan plan;
};
Result<Ordered> InItsOrder(const TrainingGraph& graph, Plan plan);

}  // namespace ebbtide::plan
