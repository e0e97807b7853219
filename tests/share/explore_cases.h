// Three jobs of four groups, of several shapes: what the explorer is run on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "share/scheduler/pipeline.h"

namespace ebbtide::share::testing {

// A wave that rises to `peak` and ebbs, in four groups.
inline JobShape Wave(std::string name, Bytes peak, Bytes state = 10) {
  return {.name = std::move(name),
          .persistent = state,
          .groups = {{peak / 2, peak / 2}, {peak, peak * 4 / 5}, {peak * 4 / 5, peak / 2}, {peak / 2, 0}}};
}
// One that stays high to its end.
inline JobShape Plateau(std::string name, Bytes peak, Bytes state = 10) {
  return {
      .name = std::move(name), .persistent = state, .groups = {{peak, peak}, {peak, peak}, {peak, peak}, {peak, 0}}};
}
// Two crests in one iteration.
inline JobShape Twin(std::string name, Bytes peak, Bytes state = 10) {
  return {.name = std::move(name),
          .persistent = state,
          .groups = {{peak, peak / 4}, {peak / 2, peak / 2}, {peak, peak / 2}, {peak / 2, 0}}};
}

inline std::vector<JobShape> Share(std::vector<JobShape> shapes) {
  for (JobShape& shape : shapes) shape.lane = 0;
  return shapes;
}

struct Case {
  const char* name;
  std::vector<JobShape> shapes;
};
inline std::vector<Case> Cases() {
  std::vector<JobShape> classes = Share({Wave("a", 100), Wave("b", 80), Twin("c", 60)});
  classes[1].priority = 1;
  std::vector<JobShape> weights = Share({Wave("a", 100), Wave("b", 100), Wave("c", 100)});
  weights[0].weight = 3;
  std::vector<JobShape> lanes = {Wave("a", 70), Wave("b", 100), Twin("c", 30)};
  lanes[0].lane = 0, lanes[1].lane = 1, lanes[2].lane = 0;
  return {{"three alike", Share({Wave("a", 100), Wave("b", 100), Wave("c", 100)})},
          {"three sizes", Share({Wave("a", 100), Wave("b", 60), Wave("c", 30)})},
          {"plateaus", Share({Plateau("a", 100), Wave("b", 100), Plateau("c", 40)})},
          {"crests", Share({Twin("a", 100), Twin("b", 90), Wave("c", 50)})},
          {"priorities", classes},
          {"weights", weights},
          {"two lanes", lanes}};
}

}  // namespace ebbtide::share::testing
