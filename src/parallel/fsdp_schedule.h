// When a step gathers and reduces the units of a sharded model.
#pragma once

#include <map>
#include <vector>

#include "graph/graph.h"
#include "parallel/layout.h"
#include "parallel/passes.h"
#include "parallel/units.h"

namespace ebbtide::parallel {

// By op of the graph: numbers of units.
using UnitPlaces = std::multimap<OpId, std::size_t>;

inline std::vector<std::size_t> At(const UnitPlaces& places, OpId op) {
  std::vector<std::size_t> units;
  const auto [first, last] = places.equal_range(op);
  for (auto one = first; one != last; ++one) units.push_back(one->second);
  return units;
}

// One of several batches.
struct UnitsPass {
  std::size_t begin = 0;                    // its first op
  std::vector<Unit> units;                  // when it uses each
  OpId last_backward;                       // invalid: it has none
  std::vector<std::size_t> backward_order;  // of the units that backward gathers
};

struct UnitSchedule {
  std::vector<UnitsPass> passes;
  UnitPlaces forward_at, backward_at;  // gathered before that op
  UnitPlaces forward_end, reduce_at;  // let go, reduced behind it; units of a stage are reduced behind all microbatches
};

// Microbatches of a stage pass it with their parameters gathered: they are one pass.
std::vector<Pass> BatchesOf(const TrainingGraph& graph, const Layout& layout);

// From forward to backward. Of a pipeline every unit does, as torchtitan has it: microbatches pass it again and again.
bool StaysGathered(const Unit& unit, const Layout& layout);

UnitSchedule ScheduleOf(const TrainingGraph& graph, const Units& units, const Layout& layout);

}  // namespace ebbtide::parallel
