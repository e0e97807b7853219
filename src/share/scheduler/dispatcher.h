// The pipeline with the jobs that wait for it: whatever happens, all who wait are asked again, in the order of their
// numbers, until none of them may start. So what is granted, and in which order, follows from the order of the calls
// alone. It has no clock and no threads: PoolScheduler puts it behind a lock for the threads of real steps,
// PipelineScheduler under the simulator's clock.
//
// A job calls Begin, then Next for each further group, then Left and End; before it goes on it waits until Take has its
// grant.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "share/scheduler/pipeline.h"

namespace ebbtide::share {

struct DispatcherOptions {
  PipelineOptions pipeline;
  // Whoever drives the jobs gives work to a device and goes on: a group that has run is queued, and finished with its
  // iteration. False: it is finished.
  bool runs_ahead = false;
  // Told of every grant as it is decided. It must not call the dispatcher.
  std::function<void(JobId job, int group, const Grant& grant)> on_grant = {};
};

class Dispatcher {
 public:
  explicit Dispatcher(DispatcherOptions options);

  Result<JobId> Join(const JobShape& shape);
  // Not within an iteration.
  void Leave(JobId job);
  void SetStartAtEbb(bool start_at_ebb);

  // The job wants to begin an iteration with its group 0.
  void Begin(JobId job);
  // Its group before has run, and it wants to go on with this one.
  void Next(JobId job, int group);
  // Its last group has run: the iteration asks for nothing of the lane any more.
  void Left(JobId job);
  // Nothing of the iteration runs any more. Without Left before, it is undone.
  void End(JobId job);
  // The job no longer waits for what it asked for and was not granted.
  void GiveUp(JobId job);
  // The job, which is not within an iteration, will not ask for the next one soon: its turn is not kept.
  void Rest(JobId job);

  // What was granted since the job asked; once. Nothing: it has to wait.
  std::optional<Grant> Take(JobId job);

  const Pipeline& pipeline() const { return pipeline_; }

 private:
  struct Member {
    std::optional<int> asks = {};  // for this group
    std::optional<Grant> granted = {};
    bool has_left = false;
  };

  void GroupHasRun(JobId job, int group);
  void Dispatch();
  int Groups(JobId job) const { return static_cast<int>(pipeline_.Shape(job).groups.size()); }

  DispatcherOptions options_;
  Pipeline pipeline_;
  std::vector<Member> members_;  // by job
};

}  // namespace ebbtide::share
