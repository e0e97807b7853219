// Who decides when a group starts: the pipeline, or a baseline. The simulator asks, and tells what has ended.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "sim/schedule.h"

namespace ebbtide::share {

class GroupScheduler {
 public:
  virtual ~GroupScheduler() = default;
  // The time the job first spends off the GPU (moving its state, ...); nothing: not now. It is asked again whenever
  // anything has ended.
  virtual std::optional<Nanos> TryStart(std::size_t job, int group, double now) = 0;
  virtual void Finished(std::size_t job, int group, double now) = 0;
  // The job has had all of its iterations.
  virtual void Rest(std::size_t /*job*/) {}
  // Time off the GPU before a step: what is not there is fetched.
  virtual Nanos BeforeStep(std::size_t /*job*/, sim::StepId /*step*/, double /*now*/) { return 0; }
};

}  // namespace ebbtide::share
