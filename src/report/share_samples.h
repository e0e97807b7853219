// Memory over time of a mix, reduced to what a screen can show.
#pragma once

#include <vector>

#include "share/scheduler/arrange.h"

namespace ebbtide::report {

// Of each stretch of time the moment at which most is in use.
struct ShareSamples {
  double begin = 0, end = 0;               // the time they cover: the last rounds
  std::vector<double> at;                  // when each stretch begins, from `begin`
  std::vector<std::vector<Bytes>> live;    // by job: bytes of its lane in use
  std::vector<std::vector<Bytes>> height;  // by job: the highest of them, from its end of the lane
};
ShareSamples SampleMemory(const share::Mix& mix, std::size_t count);

}  // namespace ebbtide::report
