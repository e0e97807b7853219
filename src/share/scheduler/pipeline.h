// The pipeline: which group of which job may start, so that all jobs get on and none ever runs out of memory.
// It has no clock and no threads: the same calls in the same order give the same answers. The simulator, the explorer
// of all interleavings and the real execution drive this one class; how they do is in dispatcher.h.   ◀ start reading
// here
//
// Memory. A lane is a contiguous region with two ends. At most two jobs of a lane are within an iteration at once: one
// lays its transient storages from the bottom up, the other, mirrored, from the top down. Heights whose sum is at most
// the lane's size cannot collide: nothing is fragmented, and a sum of two numbers decides.
//
// Safety. A group starts only if its peak beside what the other job then holds fits the lane, and if afterwards one of
// the two can run to its end beside what the other holds (the banker's rule; docs/share.md). So one of them can always
// go on, and when it has ended the lane is the other's.
//
// Fairness. Iterations are counted by weight: a job's virtual time grows by 1/weight with each. Of the jobs of a lane
// that wait to begin one, the first by (priority, virtual time) does. A job that is `ahead` of another of its
// priority that wants to run, in whatever lane, waits for it. Of two within an iteration, the one that began it first
// has the right of way: an iteration waits for at most the rest of one other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "share/scheduler/regions.h"

namespace ebbtide::share {

using JobId = Id<struct JobTag>;

// Of a NodeGroup, what the pipeline goes by.
struct GroupShape {
  Bytes peak = 0;   // height while it runs, at least that before it and that after it
  Bytes after = 0;  // height when it has run; 0 after the last
};

inline constexpr int kAnyLane = -1;

struct JobShape {
  std::string name;
  Bytes persistent = 0;  // in memory of its own for as long as the job is there
  std::vector<GroupShape> groups;
  std::int64_t weight = 1;  // iterations beside those of others, 1 to 1,000
  int priority = 0;         // of the jobs of one lane that wait, higher ones go first
  int lane = kAnyLane;  // a number that jobs of one lane agree on, from 0 on; kAnyLane: its own lane if there is room,
                        // else that with the fewest jobs
};

enum class LaneEnd : std::uint8_t { kBottom, kTop };

// Where the transient storages of one iteration lie.
struct LaneSpan {
  LaneId lane;
  LaneEnd end = LaneEnd::kBottom;
  Bytes begin = 0, size = 0;  // of the lane

  // Of `bytes` (rounded up to the alignment) at `height` above the job's end.
  Bytes Address(Bytes height, Bytes bytes) const {
    return end == LaneEnd::kBottom ? begin + height : begin + size - height - bytes;
  }
  bool operator==(const LaneSpan&) const = default;
};

// A group that was queued but has not finished.
struct Awaited {
  JobId job;
  std::int64_t iteration = 0;
  int group = 0;
  bool operator==(const Awaited&) const = default;
};

struct Grant {
  LaneSpan span;
  std::int64_t iteration = 0;     // counts all that the job has begun, also those it aborted
  std::vector<Awaited> wait_for;  // the job's stream waits for these on the device first; all were queued before
};

// Why a group may not start now.
enum class Refusal : std::uint8_t {
  kNone,
  kMemory,    // it would not fit, or leave no safe order
  kEnds,      // both ends of the lane are taken
  kTurn,      // another job of the lane goes first
  kAhead,     // it is ahead of others
  kEbb,       // the other job has not passed its peak
  kNotReady,  // the memory of the job is not clear yet
};

struct PipelineOptions {
  Bytes capacity = 0;
  Bytes alignment = 512;  // of all addresses; sizes are rounded up to it
  int ahead = 1;          // iterations by which a job may be ahead
  // Where two peaks do not fit side by side, an iteration begins when the other has passed its peak, so that its
  // forward meets the other's backward. False: as soon as it is safe.
  bool start_at_ebb = true;
};

class Pipeline {
 public:
  explicit Pipeline(const PipelineOptions& options);

  // ---- Jobs come and go, while others run
  // An error says what the job needs and what there is.
  Result<JobId> Join(const JobShape& shape);
  // The job's state may be written. It may take until an iteration of another job has ended.
  bool IsReady(JobId job) const;
  Bytes StateAddress(JobId job) const;
  // Not within an iteration; nothing of it runs any more.
  void Leave(JobId job);

  // ---- An iteration is groups 0, 1, ..., each started, queued and finished in this order
  // Nothing: not now; ask again when any group has been queued or has finished, or a job has come, gone or aborted. A
  // job that was refused its group 0 holds its turn until it starts, withdraws, or leaves.
  std::optional<Grant> TryStart(JobId job, int group);
  // The group's work is in the job's stream: others may be given its memory, who then wait for it on the device. A job
  // whose last group this is holds its turn for the next iteration, until it withdraws, aborts or leaves: no other
  // takes it while the job is about to ask.
  void Queued(JobId job, int group);
  // The device has done the group. Counts as queued.
  void Finished(JobId job, int group);
  // The iteration ends here, for whatever reason; nothing of it runs any more.
  void Abort(JobId job);
  // The job does not want to begin an iteration for now.
  void Withdraw(JobId job);

  // From now on; jobs may be within an iteration.
  void SetStartAtEbb(bool start_at_ebb) { options_.start_at_ebb = start_at_ebb; }

  // ---- Looking in
  Refusal WhyNot(JobId job, int group) const;
  bool IsMember(JobId job) const { return job.valid() && job.index() < jobs_.size() && jobs_[job.index()].member; }
  bool IsWithinIteration(JobId job) const { return jobs_[job.index()].within; }
  int NextGroup(JobId job) const { return jobs_[job.index()].granted; }
  std::int64_t Iterations(JobId job) const { return jobs_[job.index()].completed; }
  const JobShape& Shape(JobId job) const { return *jobs_[job.index()].shape; }
  LaneId LaneOf(JobId job) const { return jobs_[job.index()].lane; }
  const Regions& regions() const { return regions_; }
  // The state without names and counts of iterations: equal states have equal futures.
  std::vector<std::int64_t> Fingerprint() const;

 private:
  struct Job {
    std::shared_ptr<const JobShape> shape;
    std::shared_ptr<const std::vector<Bytes>> rest;  // by group, and one more: the largest peak from it on
    bool member = false;
    LaneId lane;
    Bytes state = 0;
    // ---- Scheduling
    bool within = false;   // an iteration
    bool waiting = false;  // was refused the start of one
    bool blocked = false;  // was refused a later group
    LaneEnd end = LaneEnd::kBottom;
    int granted = 0, queued = 0;  // groups of this iteration; at most one is granted and not queued
    std::int64_t serial = 0;      // of the iteration, by its start: the lower is the older
    std::int64_t begun = -1;      // the number of its latest iteration
    std::int64_t completed = 0;   // iterations
    std::int64_t virtual_time = 0;
  };
  // A group that was granted and has not finished, in the order of grants.
  struct Flight {
    JobId job;
    std::int64_t iteration = 0;
    int group = 0;
    LaneId lane;
    LaneEnd end = LaneEnd::kBottom;
    Bytes peak = 0;
  };

  Bytes Peak(const Job& job) const { return (*job.rest)[0]; }
  // What it holds now and, with what is granted done, holds then and may yet reach.
  static Bytes Held(const Job& job);
  static Bytes HeldThen(const Job& job);
  static Bytes Reach(const Job& job) { return (*job.rest)[job.granted]; }
  std::int64_t Charge(const Job& job) const;
  bool GoesBefore(const Job& a, std::size_t a_index, const Job& b, std::size_t b_index) const;
  const Job* OtherWithin(const Job& job) const;
  Refusal WhyNotBegin(std::size_t index) const;
  Refusal WhyNotGoOn(const Job& job) const;
  bool MustYield(const Job& older, Bytes peak) const;
  std::optional<LaneEnd> FreeEnd(LaneId lane) const;
  std::int64_t EarliestReturn(int priority) const;
  std::vector<Awaited> Conflicts(const Job& job, std::size_t index, int group) const;
  void Settle();
  void UpdateUseful(LaneId lane);

  PipelineOptions options_;
  Regions regions_;
  std::vector<Job> jobs_;
  std::vector<Flight> flights_;
  std::vector<int> lane_names_;  // by lane: the number its jobs gave it; kAnyLane
  std::int64_t next_serial_ = 0;
  std::map<int, std::int64_t> last_begun_;  // by priority: the latest virtual time at which an iteration began
};

}  // namespace ebbtide::share
