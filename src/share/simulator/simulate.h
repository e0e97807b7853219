// Several jobs on one GPU in time, until each has run some iterations.   ◀ the model: docs/share.md
//
// Each job has one stream of ops, in order. An op is first launched, which takes nothing of the GPU, and then keeps a
// share of the GPU busy. Shares add up to at most one: where they would exceed it, all that run slow down alike. Copies
// between host and device go over one link each way, one at a time, in the order in which they are queued.
//
// Jobs of one priority go on until each has run its iterations, and what is counted is their steady state. Jobs of
// several priorities have none, as a higher one that always comes back may leave lower ones no turn: each takes its
// iterations, by its weight, and rests then, and all of it counts.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "share/scheduler/job.h"
#include "share/simulator/group_scheduler.h"

namespace ebbtide::share {

struct TogetherOptions {
  Link link;
  int warm_up = 6;     // iterations that every job completes before the count begins: until then some get ahead
  int iterations = 8;  // that every job completes after that
  bool keep_timeline = false;
  std::int64_t most_events = 200'000'000;  // a mix that takes more counts as stuck
  std::function<bool()> stop = {};         // asked now and then; true ends it
};

// A group's run.
struct GroupRun {
  std::size_t job = 0;
  std::int64_t iteration = 0;
  int group = 0;
  double begin = 0, end = 0;
  bool overlapped = false;  // a group of another job ran meanwhile
};
// From `at` on, the job has so many bytes of its lane in use, the highest of them at `height`.
struct MemoryPoint {
  double at = 0;
  std::size_t job = 0;
  Bytes live = 0, height = 0;
};

struct JobOutcome {
  double iterations_per_second = 0;
  double waited = 0;  // share of the time in which it wanted to start a group and might not
};

struct Together {
  bool stuck = false;     // nobody could go on
  bool stopped = false;   // it was asked to stop; then nothing else is told
  Nanos round = 0;        // steady state: every job completes one iteration
  double throughput = 0;  // sum over jobs of iterations per second x the time of one alone: one after the other is 1
  double busy = 0;        // mean share of the GPU in use
  std::vector<JobOutcome> jobs;
  std::int64_t group_runs = 0, overlapped = 0;  // within the count
  // ---- Only if asked for: the count's last rounds
  std::vector<GroupRun> runs;
  std::vector<MemoryPoint> memory;
  double begin = 0, end = 0;  // the time they cover

  // Of the group runs, those that had one of another job beside them.
  double overlap() const {
    return group_runs > 0 ? static_cast<double>(overlapped) / static_cast<double>(group_runs) : 0;
  }
};

Together RunTogether(const std::vector<Job>& jobs, GroupScheduler& scheduler, const TogetherOptions& options);

}  // namespace ebbtide::share
