// Goes from state to state until no new one is found.
#include "tests/share/explore.h"

#include <functional>
#include <unordered_set>

#include "tests/share/device_model.h"

namespace ebbtide::share::testing {
namespace {

using Key = std::pair<std::uint64_t, std::uint64_t>;
struct HashKey {
  std::size_t operator()(const Key& key) const { return key.first; }
};

struct State {
  Pipeline pipeline;
  DeviceModel device;

  // 64 bits of each of two hashes: among 10^7 states, two that differ have the same with a chance of 10^-25.
  Key Summary() const {
    Key key{0x9e3779b97f4a7c15, 0xd1b54a32d192ed03};
    const auto mix = [&](const std::vector<std::int64_t>& values) {
      for (const std::int64_t value : values) {
        key.first = (key.first ^ static_cast<std::uint64_t>(value)) * 0xff51afd7ed558ccd;
        key.first ^= key.first >> 32;
        key.second = (key.second + static_cast<std::uint64_t>(value)) * 0xc4ceb9fe1a85ec53;
        key.second ^= key.second >> 29;
      }
    };
    mix(pipeline.Fingerprint());
    mix(device.Fingerprint());
    return key;
  }
};

class Explorer {
 public:
  Explorer(const std::vector<JobShape>& shapes, const ExploreOptions& options) : options_(options) {
    State first{Pipeline(options.pipeline), {}};
    for (const JobShape& shape : shapes) {
      const Result<JobId> job = first.pipeline.Join(shape);
      if (!job) {
        out_.fault = job.error().message;
        return;
      }
      first.device.AddJob(options.actual.empty() ? shape : options.actual[jobs_.size()]);
      jobs_.push_back(*job);
    }
    Reach(std::move(first));
  }

  Explored Run() {
    while (!open_.empty() && out_.fault.empty()) {
      const State state = std::move(open_.back());
      open_.pop_back();
      Expand(state);
    }
    out_.states = seen_.size();
    return out_;
  }

 private:
  void Reach(State state) {
    if (!seen_.insert(state.Summary()).second) return;
    if (out_.fault = state.device.Check(state.pipeline); !out_.fault.empty()) return;
    if (state.device.Running().size() > 1) ++out_.overlaps;
    open_.push_back(std::move(state));
  }

  void Expand(const State& state) {
    bool goes_on = false;
    for (const JobId job : jobs_) {
      const std::size_t unfinished = state.device.Unfinished(job);
      if (unfinished == 0 || static_cast<int>(unfinished) <= options_.run_ahead) {
        State next = state;
        const int group = next.pipeline.NextGroup(job);
        if (const auto grant = next.pipeline.TryStart(job, group)) {
          next.device.Launch(job, group, *grant);
          if (options_.run_ahead > 0) next.pipeline.Queued(job, group);
          goes_on = true;
        }
        Reach(std::move(next));
      }
      if (options_.with_aborts && unfinished == 0 && state.pipeline.IsWithinIteration(job)) {
        State next = state;
        next.pipeline.Abort(job);
        next.device.Abort(job);
        Reach(std::move(next));
      }
    }
    for (const JobId job : state.device.Running()) {
      State next = state;
      next.pipeline.Finished(job, next.device.Finish(job));
      goes_on = true;
      Reach(std::move(next));
    }
    // Refusals are remembered: only a state in which everyone was refused in vain stands still.
    if (!goes_on && Stands(state)) out_.fault = "deadlock";
  }

  // Whether asking again, in the order of the jobs, changes nothing.
  bool Stands(const State& state) const {
    State next = state;
    for (int round = 0; round < 2; ++round) {
      for (const JobId job : jobs_) {
        if (next.pipeline.TryStart(job, next.pipeline.NextGroup(job))) return false;
      }
    }
    return true;
  }

  const ExploreOptions options_;
  std::vector<JobId> jobs_;
  std::unordered_set<Key, HashKey> seen_;
  std::vector<State> open_;
  Explored out_;
};

}  // namespace

Explored Explore(const std::vector<JobShape>& shapes, const ExploreOptions& options) {
  return Explorer(shapes, options).Run();
}

}  // namespace ebbtide::share::testing
