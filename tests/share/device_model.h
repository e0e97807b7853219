// A device on which groups run: each job's stream in order, a group when those it waits for have finished. It knows the
// addresses that are in use, and nothing of how the pipeline came to grant them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "share/scheduler/pipeline.h"

namespace ebbtide::share::testing {

class DeviceModel {
 public:
  void AddJob(const JobShape& shape);
  void Launch(JobId job, int group, const Grant& grant);
  // Groups that run now: the first of their stream, whose waits are over.
  std::vector<JobId> Running() const;
  // Of the job's first group, which runs.
  int Finish(JobId job);
  void Abort(JobId job);
  std::size_t Unfinished(JobId job) const { return streams_[job.index()].queue.size(); }
  // What is wrong with the addresses in use now; empty: nothing.
  std::string Check(const Pipeline& pipeline) const;
  // Only with what it holds: for comparing states.
  std::vector<std::int64_t> Fingerprint() const;

 private:
  struct Launched {
    int group;
    std::int64_t iteration;
    LaneSpan span;
    std::vector<Awaited> wait_for;
  };
  struct Stream {
    std::shared_ptr<const JobShape> shape;
    std::deque<Launched> queue;
    LaneSpan span;  // where it holds memory
    Bytes held = 0;
  };
  bool IsOver(const Awaited& awaited) const;

  std::vector<Stream> streams_;
};

}  // namespace ebbtide::share::testing
