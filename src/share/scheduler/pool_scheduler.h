// Several steps on one pool, each driven by a thread of its own: the dispatcher behind a lock, and threads that wait
// until it has granted what they asked for.
//
// A step tells its groups by its turns (run/engine/turns.h). Where ops run on the calling thread, as on the CPU, a
// group that has been run is finished; on a GPU it is queued, and finished when the device has done it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "run/engine/turns.h"
#include "share/scheduler/dispatcher.h"

namespace ebbtide::share {

// Thread-safe; a job is one thread's.
class PoolScheduler {
 public:
  struct Counts {
    std::int64_t groups = 0;      // that have run
    std::int64_t overlapped = 0;  // ... while one of another job did
  };

  // For how long a job keeps its turn between two iterations, while its thread does other things, when others wait.
  static constexpr std::chrono::milliseconds kPatience{20};

  // `on_grant` is called under the lock.
  explicit PoolScheduler(const DispatcherOptions& options, std::chrono::milliseconds patience = kPatience);
  ~PoolScheduler();

  // Waits until memory for the job's state is clear, if an iteration of another job is in the way. `give_up` is asked
  // now and then.
  Result<JobId> Join(const JobShape& shape, const std::function<bool()>& give_up = {});
  // Not within an iteration.
  void Leave(JobId job);
  Bytes StateAddress(JobId job) const;
  void SetStartAtEbb(bool start_at_ebb);
  // Until the job leaves.
  run::Turns& TurnsOf(JobId job);
  // The job, which is not within an iteration, takes no further one for now: its turn goes to others at once.
  void Rest(JobId job);

  // Whoever waits for a turn of the job, or comes to ask for one, is turned away, unless its update has begun; until
  // Resume.
  void Stop(JobId job);
  void Resume(JobId job);
  bool stopped(JobId job) const;

  Counts counts() const;
  // Whether the job's thread stands still until it is its turn.
  bool waits(JobId job) const;

 private:
  class JobTurns;

  DispatcherOptions WithCounts(DispatcherOptions options);
  void GroupHasRun(JobTurns& turns);
  void RestThoseWhoAreLate();

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a job has come, gone, got on or ended
  Dispatcher dispatcher_;
  std::vector<std::unique_ptr<JobTurns>> turns_;  // by job; null: it has left
  Counts counts_;
  const std::chrono::milliseconds patience_;
};

}  // namespace ebbtide::share
