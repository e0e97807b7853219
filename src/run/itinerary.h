// A plan's schedule laid out for execution: what happens at each boundary, and what each step is given.
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "sim/schedule.h"
#include "sim/workload.h"

namespace ebbtide::run {

using sim::Index;

// A storage that a step makes.
struct Birth {
  Index storage = 0;
  Bytes bytes = 0;  // as the graph has it, not rounded up
  Bytes address = 0;
  bool kept = true;  // false: made only because the op makes it too, and forgotten when the op has ended
};

// One step and the boundary before it. Stays are numbers into the schedule's.
struct Visit {
  Index op = sim::kNone;  // kNone: the boundary that ends the iteration
  bool again = false;
  bool in_update = false;       // from the first op of the update on
  std::vector<Index> leaving;   // copies to the host to queue, in order
  std::vector<Index> ending;    // stays that end
  std::vector<Index> entering;  // copies to the device to queue, in order
  std::vector<Birth> births;
  Bytes scratch_address = 0, scratch_bytes = 0;  // for what the op needs meanwhile
  std::vector<Index> protect;  // state that the op changes again although it was changed already: left as it is
  Index draw = sim::kNone;     // of a random op that runs more than once: where its random state is kept
};

struct Itinerary {
  std::vector<Visit> visits;  // one per step, and one more
  Index draws = 0;            // random states to keep
  Index middle = 0;           // the visit after the last op of forward that runs for the first time
  Index first_update = 0;     // visits before it can be undone
  std::vector<Index> undo;    // state that they change; what lies outside the pool is not ours to undo
  std::vector<Bytes> home;    // by storage: the address of state when the iteration begins; -1 for all else
  std::vector<Index> moved;   // state that is elsewhere for a while, or when the iteration ends
};

// The schedule is placed and valid for the graph.
Itinerary MakeItinerary(const TrainingGraph& graph, const sim::Workload& workload, const sim::Schedule& schedule);

}  // namespace ebbtide::run
