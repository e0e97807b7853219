// Who decides when a group starts: the pipeline, or a baseline. The simulator asks, and tells what has ended.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"

namespace ebbtide::share {

class Gate {
 public:
  virtual ~Gate() = default;
  // The time the job first spends off the GPU (moving its state, ...); nothing: not now. It is asked again whenever
  // anything has ended.
  virtual std::optional<Nanos> TryStart(std::size_t job, int group, double now) = 0;
  virtual void Finished(std::size_t job, int group, double now) = 0;
  // Time off the GPU before a step: what is not there is fetched.
  virtual Nanos BeforeStep(std::size_t /*job*/, std::size_t /*step*/, double /*now*/) { return 0; }
};

}  // namespace ebbtide::share
