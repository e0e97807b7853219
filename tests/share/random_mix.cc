// Lets jobs do what chance says, and checks the pipeline against the device after each event.
#include "tests/share/random_mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "share/scheduler/pipeline.h"
#include "tests/share/device_model.h"

namespace ebbtide::share::testing {
namespace {

class Mix {
 public:
  explicit Mix(std::uint64_t seed)
      : random_(seed),
        pipeline_({.capacity = 1000,
                   .alignment = Draw(0, 1) == 0 ? 1 : 8,
                   .ahead = static_cast<int>(Draw(0, 2)),
                   .start_at_ebb = Draw(0, 1) == 0}),
        run_ahead_(static_cast<int>(Draw(0, 3))) {}

  MixResult Run() {
    for (int action = 0; action < 150 && out_.fault.empty(); ++action) {
      Act();
      Look();
    }
    if (out_.fault.empty()) CheckThatAllGetOn();
    if (out_.fault.empty()) EveryoneLeaves();
    return out_;
  }

 private:
  std::int64_t Draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  JobShape RandomShape() {
    JobShape shape{.name = fmt::format("job{}", jobs_.size()), .persistent = Draw(0, 120), .groups = {}};
    const auto groups = Draw(1, 7);
    const Bytes high = Draw(1, 900);
    Bytes before = 0;
    for (std::int64_t g = 0; g < groups; ++g) {
      const Bytes after = g + 1 == groups ? 0 : Draw(0, high);
      shape.groups.push_back({std::max(before, after) + Draw(0, high / 4), after});
      before = after;
    }
    shape.weight = Draw(1, 3);
    shape.priority = Draw(0, 5) == 0 ? 1 : 0;
    shape.lane = static_cast<int>(Draw(-1, 1));
    return shape;
  }

  void Join() {
    const JobShape shape = RandomShape();
    const Result<JobId> job = pipeline_.Join(shape);
    ++(job ? out_.joins : out_.refused);
    if (!job) return;
    jobs_.push_back(*job);
    device_.AddJob(pipeline_.Shape(*job));
  }

  bool TryStart(JobId job) {
    if (static_cast<int>(device_.Unfinished(job)) > run_ahead_) return false;
    const int group = pipeline_.NextGroup(job);
    const auto grant = pipeline_.TryStart(job, group);
    if (!grant) return false;
    device_.Launch(job, group, *grant);
    if (run_ahead_ > 0) pipeline_.Queued(job, group);
    return true;
  }

  bool FinishSomething() {
    const std::vector<JobId> running = device_.Running();
    if (running.empty()) return false;
    const JobId job = running[Draw(0, static_cast<std::int64_t>(running.size()) - 1)];
    pipeline_.Finished(job, device_.Finish(job));
    return true;
  }

  // As a real abort: the device first ends what it was given.
  void Drain(JobId job) {
    while (device_.Unfinished(job) > 0) {
      if (!FinishSomething()) {
        out_.fault = "the device stands still";
        return;
      }
    }
  }

  void Act() {
    const std::int64_t choice = Draw(0, 99);
    if (members() < 2 || (choice < 4 && members() < 6)) return Join();
    std::vector<JobId> present;
    std::ranges::copy_if(jobs_, std::back_inserter(present), [&](JobId job) { return pipeline_.IsMember(job); });
    const JobId job = present[Draw(0, static_cast<std::int64_t>(present.size()) - 1)];
    if (choice < 8) {
      Drain(job);
      pipeline_.Abort(job);
      device_.Abort(job);
      ++out_.aborts;
      if (choice < 6) {
        pipeline_.Leave(job);
        ++out_.leaves;
      }
    } else if (choice < 10) {
      if (!pipeline_.IsWithinIteration(job)) pipeline_.Withdraw(job);
    } else if (choice < 60) {
      TryStart(job);
    } else {
      FinishSomething();
    }
  }

  std::int64_t members() const {
    return std::ranges::count_if(jobs_, [&](JobId job) { return pipeline_.IsMember(job); });
  }

  void Look() {
    if (const std::string fault = device_.Check(pipeline_); !fault.empty()) out_.fault = fault;
    if (device_.Running().size() > 1) ++out_.overlaps;
  }

  // Everyone asks for all it can get, the device does one thing after another: two more iterations each. A job waits
  // for others of a higher priority as long as they want to run, so these stop when they have theirs.
  void CheckThatAllGetOn() {
    std::vector<std::int64_t> wanted(jobs_.size(), 0);
    for (const JobId job : jobs_) wanted[job.index()] = pipeline_.Iterations(job) + 2;
    const auto lacks = [&](JobId job) {
      return pipeline_.IsMember(job) && pipeline_.Iterations(job) < wanted[job.index()];
    };
    const auto highest = [&] {
      int priority = -1;
      for (const JobId job : jobs_) {
        if (lacks(job)) priority = std::max(priority, pipeline_.Shape(job).priority);
      }
      return priority;
    };
    int rounds = 0;
    while (std::ranges::any_of(jobs_, lacks) && out_.fault.empty()) {
      const int priority = highest();
      const auto stops = [&](JobId job) {
        return pipeline_.Shape(job).priority > priority && !pipeline_.IsWithinIteration(job);
      };
      for (const JobId job : jobs_) {
        if (pipeline_.IsMember(job) && stops(job)) pipeline_.Withdraw(job);
      }
      bool moved = false;
      for (const JobId job : jobs_) {
        if (pipeline_.IsMember(job) && !stops(job)) moved |= TryStart(job);
        Look();
      }
      moved |= FinishSomething();
      Look();
      if (!moved && out_.fault.empty()) out_.fault = "deadlock";
      if (++rounds > 5000) out_.fault = "a job starves";
    }
  }

  void EveryoneLeaves() {
    for (const JobId job : jobs_) {
      if (!pipeline_.IsMember(job)) continue;
      out_.iterations += pipeline_.Iterations(job);
      Drain(job);
      pipeline_.Abort(job);
      device_.Abort(job);
      pipeline_.Leave(job);
    }
    if (pipeline_.regions().taken() != 0) out_.fault = "memory is not back";
  }

  std::mt19937_64 random_;
  Pipeline pipeline_;
  const int run_ahead_;
  DeviceModel device_;
  std::vector<JobId> jobs_;
  MixResult out_;
};

}  // namespace

MixResult RunRandomMix(std::uint64_t seed) { return Mix(seed).Run(); }

}  // namespace ebbtide::share::testing
