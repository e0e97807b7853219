// Several steps on one pool, each driven by a thread of its own: the pipeline behind a lock, and threads that wait
// where it says that they have to.
//
// A step's groups are told to the pipeline by its gate (run/gate.h). Where ops run on the calling thread, as on the
// CPU, a group that has been run is finished; on a GPU it is queued, and finished when the device has done it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "run/gate.h"
#include "share/pipeline.h"

namespace ebbtide::share {

struct HarbourOptions {
  PipelineOptions pipeline;
  bool runs_ahead = false;  // threads give work to a device and go on
};

// Thread-safe; a job is one thread's.
class Harbour {
 public:
  struct Counts {
    std::int64_t groups = 0;      // that have run
    std::int64_t overlapped = 0;  // ... while one of another job did
  };

  explicit Harbour(const HarbourOptions& options);
  ~Harbour();

  // Waits until memory for the job's state is clear, if an iteration of another job is in the way. `give_up` is asked
  // now and then.
  Result<JobId> Join(const JobShape& shape, const std::function<bool()>& give_up = {});
  // Not within an iteration.
  void Leave(JobId job);
  Bytes StateAddress(JobId job) const;
  // Until the job leaves.
  run::Gate& GateOf(JobId job);

  // Whoever waits at the job's gate, or comes to it, is turned away, unless its update has begun; until Resume.
  void Stop(JobId job);
  void Resume(JobId job);
  bool stopped(JobId job) const;

  Counts counts() const;

 private:
  class JobGate;

  const bool runs_ahead_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Pipeline pipeline_;
  std::vector<std::unique_ptr<JobGate>> gates_;  // by job; null: it has left
  Counts counts_;
};

}  // namespace ebbtide::share
