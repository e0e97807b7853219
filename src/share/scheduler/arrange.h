// The arranger: for trainings that are to share a pool of memory it decides who shares a lane with whom, who runs by
// which plan, and when iterations begin; and says how fast that is. `ebbtide share` shows what it decides, and
// ebbtide.Shared runs it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "share/scheduler/job.h"
#include "share/simulator/simulate.h"

namespace ebbtide::share {

struct MixOptions {
  DeviceProfile gpu;      // that other ways of sharing are worked out for (baselines/)
  Bytes capacity = 0;     // of device memory for all jobs
  Bytes alignment = 512;  // of all addresses in it
  Link link;
  CutOptions cut{.groups = 16};
  bool may_plan = true;                                   // jobs may run under plans that make them lower
  std::int64_t evaluations = 64;                          // of the search for such a plan
  int threads = 1;                                        // of that search; results do not depend on it
  TogetherOptions together;                               // of the simulation that choices go by
  std::function<void(const std::string&)> progress = {};  // what is being tried
  std::function<bool()> stop = {};                        // asked now and then; true ends it with ErrorKind::kStopped
};

// Options for a GPU: all of its memory but what one context takes, and its link.
MixOptions OptionsFor(const DeviceProfile& gpu);

struct Mix {
  bool fits = false;
  std::string reason;  // why it does not: what is needed and what there is
  std::vector<Job> jobs;
  std::vector<int> lanes;               // by job
  std::vector<std::size_t> join_order;  // of the jobs, into the pool
  std::vector<Bytes> lane_sizes;
  bool start_at_ebb = true;  // as in PipelineOptions
  Bytes capacity = 0;
  Bytes needed = 0;     // a capacity that does without any plans but the steps' own
  Bytes peak = 0;       // the most of the memory in use at a time: state, and heights in the lanes
  Nanos exclusive = 0;  // one after the other: every job runs one iteration alone
  Together together;

  // How many times as fast as one job after the other.
  double speedup() const {
    return together.round > 0 ? static_cast<double>(exclusive) / static_cast<double>(together.round) : 0;
  }
};

// Keeps the plans it has made: asked again, with further jobs or without some, it does not make them anew.
class Arranger {
 public:
  explicit Arranger(MixOptions options);

  // Trainings that are one object are planned and placed once.
  //
  // Lanes by the throughput of what is simulated, of all ways to share them that fit (up to five jobs; beyond, one lane
  // each, two lanes, or one for all) but those that only take from jobs a lane that they could have to themselves.
  // Plans where nothing fits without, and where jobs fill a lane so that they would alternate: then they are planned
  // for less and less of it, and run so where that is faster. Fails only when it is told to stop.
  Result<Mix> Arrange(const std::vector<std::shared_ptr<const Training>>& trainings);

  // The job by its own plan if that takes at most `room` of a lane, else by one that does; nothing: none was found.
  std::optional<Job> Within(const std::shared_ptr<const Training>& training, Bytes room);

 private:
  using Trainings = std::vector<std::shared_ptr<const Training>>;
  using Plan = std::shared_ptr<const plan::Plan>;

  const Job& Tight(const std::shared_ptr<const Training>& training);
  Job Place(const std::shared_ptr<const Training>& training, const Plan& plan, Bytes height_limit) const;
  const Job& Relaxed(const Job& tight, Bytes height_limit);
  std::optional<Job> MakeLower(const Job& tight, Bytes room);
  std::optional<std::vector<Job>> LowerThan(const std::vector<Job>& tight, double share_of_room);
  void TryLanes(const std::vector<Job>& tight, Mix& best);
  bool Try(const std::vector<Job>& tight, const std::vector<int>& lanes, Mix& best);
  bool MayGain(const Mix& best, const std::vector<Job>& tight) const;
  void Record(Mix& best) const;
  Bytes Up(Bytes bytes) const { return RoundUp(bytes, options_.alignment); }
  Bytes StateOf(const std::vector<Job>& jobs) const;
  std::vector<Bytes> Needs(const std::vector<Job>& jobs, const std::vector<int>& lanes) const;
  bool Stopped() const { return options_.stop && options_.stop(); }
  void Say(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  MixOptions options_;
  std::map<std::shared_ptr<const Training>, Job> tight_;                                   // as low as they go
  std::map<std::pair<std::shared_ptr<const Training>, Bytes>, std::optional<Job>> lower_;  // by room
  std::map<std::tuple<std::shared_ptr<const Training>, Plan, Bytes>, Job> relaxed_;        // by plan and limit
};

Result<Mix> ArrangeMix(const std::vector<std::shared_ptr<const Training>>& trainings, const MixOptions& options);

// What a step keeps from iteration to iteration.
Bytes StateOf(const sim::Workload& workload);
// Whether the mix fits without plans: quick, for searches. Jobs of one training may share it.
bool FitsInOneLane(const std::vector<std::shared_ptr<const Training>>& trainings, const MixOptions& options);

}  // namespace ebbtide::share
