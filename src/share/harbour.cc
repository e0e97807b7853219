#include "share/harbour.h"

#include <atomic>
#include <chrono>

namespace ebbtide::share {

class Harbour::JobGate final : public run::Gate {
 public:
  JobGate(Harbour& harbour, JobId job) : harbour_(harbour), job_(job) {}

  tl::expected<Grant, run::Failure> Begin() override {
    std::unique_lock lock(harbour_.mutex_);
    const std::optional<share::Grant> grant = Await(lock, 0, false);
    if (!grant) {
      harbour_.pipeline_.Withdraw(job_);
      harbour_.changed_.notify_all();
      return tl::unexpected<run::Failure>(TurnedAway());
    }
    has_left_ = false;
    return Grant{.lane = grant->berth.begin,
                 .lane_bytes = grant->berth.size,
                 .from_top = grant->berth.end == LaneEnd::kTop,
                 .height = Height(0)};
  }

  tl::expected<Bytes, run::Failure> Next(run::Index group, bool must) override {
    std::unique_lock lock(harbour_.mutex_);
    Done(static_cast<int>(group) - 1);
    if (!Await(lock, static_cast<int>(group), must)) return tl::unexpected<run::Failure>(TurnedAway());
    return Height(static_cast<int>(group));
  }

  void Left() override {
    const std::lock_guard lock(harbour_.mutex_);
    Done(Groups() - 1);
    has_left_ = true;
  }

  void End() override {
    const std::lock_guard lock(harbour_.mutex_);
    if (!has_left_) {
      harbour_.pipeline_.Abort(job_);
      running_ = false;
    } else if (harbour_.runs_ahead_) {
      for (int group = 0; group < Groups(); ++group) harbour_.pipeline_.Finished(job_, group);
    }
    harbour_.changed_.notify_all();
  }

  std::atomic<bool> stopped = false;

 private:
  static run::Failure TurnedAway() { return {run::Failure::Kind::kInterrupted, "stopped"}; }
  int Groups() const { return static_cast<int>(harbour_.pipeline_.Shape(job_).groups.size()); }
  Bytes Height(int group) const { return harbour_.pipeline_.Shape(job_).groups[static_cast<std::size_t>(group)].peak; }

  // Nothing: the job was stopped.
  std::optional<share::Grant> Await(std::unique_lock<std::mutex>& lock, int group, bool must) {
    for (;;) {
      if (stopped && !must) return std::nullopt;
      if (std::optional<share::Grant> grant = harbour_.pipeline_.TryStart(job_, group)) {
        Started();
        return grant;
      }
      harbour_.changed_.wait(lock);
    }
  }

  void Started() {
    running_ = true;
    overlapped_ = false;
    for (const std::unique_ptr<JobGate>& other : harbour_.gates_) {
      if (!other || other.get() == this || !other->running_) continue;
      overlapped_ = other->overlapped_ = true;
    }
  }

  void Done(int group) {
    running_ = false;
    ++harbour_.counts_.groups;
    harbour_.counts_.overlapped += overlapped_;
    if (harbour_.runs_ahead_) {
      harbour_.pipeline_.Queued(job_, group);
    } else {
      harbour_.pipeline_.Finished(job_, group);
    }
    harbour_.changed_.notify_all();
  }

  Harbour& harbour_;
  const JobId job_;
  bool has_left_ = false;
  bool running_ = false, overlapped_ = false;  // the group that was granted last
};

Harbour::Harbour(const HarbourOptions& options) : runs_ahead_(options.runs_ahead), pipeline_(options.pipeline) {}

Harbour::~Harbour() = default;

Result<JobId> Harbour::Join(const JobShape& shape, const std::function<bool()>& give_up) {
  std::unique_lock lock(mutex_);
  EBB_ASSIGN_OR_RETURN(const JobId job, pipeline_.Join(shape));
  if (gates_.size() <= job.index()) gates_.resize(job.index() + 1);
  gates_[job.index()] = std::make_unique<JobGate>(*this, job);
  changed_.notify_all();
  while (!pipeline_.IsReady(job)) {
    changed_.wait_for(lock, std::chrono::milliseconds(100));
    if (!give_up) continue;
    lock.unlock();
    const bool given_up = give_up();
    lock.lock();
    if (!given_up) continue;
    pipeline_.Leave(job);
    gates_[job.index()].reset();
    changed_.notify_all();
    return Fail("{}: stopped while it waited to join", shape.name);
  }
  return job;
}

void Harbour::Leave(JobId job) {
  const std::lock_guard lock(mutex_);
  pipeline_.Leave(job);
  gates_[job.index()].reset();
  changed_.notify_all();
}

Bytes Harbour::StateAddress(JobId job) const {
  const std::lock_guard lock(mutex_);
  return pipeline_.StateAddress(job);
}

run::Gate& Harbour::GateOf(JobId job) {
  const std::lock_guard lock(mutex_);
  return *gates_[job.index()];
}

void Harbour::Stop(JobId job) {
  const std::lock_guard lock(mutex_);
  if (gates_[job.index()]) gates_[job.index()]->stopped = true;
  changed_.notify_all();
}

void Harbour::Resume(JobId job) {
  const std::lock_guard lock(mutex_);
  if (gates_[job.index()]) gates_[job.index()]->stopped = false;
}

bool Harbour::stopped(JobId job) const {
  const std::lock_guard lock(mutex_);
  return gates_[job.index()] && gates_[job.index()]->stopped;
}

Harbour::Counts Harbour::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace ebbtide::share
