// Threads that wait for the dispatcher.
#include "share/scheduler/pool_scheduler.h"

#include <chrono>
#include <utility>

namespace ebbtide::share {

using Clock = std::chrono::steady_clock;

class PoolScheduler::JobTurns final : public run::Turns {
 public:
  JobTurns(PoolScheduler& pool, JobId job) : pool_(pool), job_(job) {}

  tl::expected<Turn, run::Failure> Begin() override {
    std::unique_lock lock(pool_.mutex_);
    ended.reset();
    if (stopped) {
      pool_.dispatcher_.Rest(job_);
      return tl::unexpected<run::Failure>(TurnedAway());
    }
    pool_.dispatcher_.Begin(job_);
    const std::optional<Grant> grant = Await(lock, false);
    if (!grant) return tl::unexpected<run::Failure>(TurnedAway());
    return Turn{.lane = grant->span.begin,
                .lane_bytes = grant->span.size,
                .from_top = grant->span.end == LaneEnd::kTop,
                .height = Height(0)};
  }

  tl::expected<Bytes, run::Failure> Next(std::size_t group, bool must) override {
    std::unique_lock lock(pool_.mutex_);
    pool_.GroupHasRun(*this);
    if (stopped && !must) return tl::unexpected<run::Failure>(TurnedAway());
    pool_.dispatcher_.Next(job_, static_cast<int>(group));
    pool_.changed_.notify_all();
    if (!Await(lock, must)) return tl::unexpected<run::Failure>(TurnedAway());
    return Height(static_cast<int>(group));
  }

  void Left() override {
    const std::lock_guard lock(pool_.mutex_);
    pool_.GroupHasRun(*this);
    pool_.dispatcher_.Left(job_);
    pool_.changed_.notify_all();
  }

  void End() override {
    const std::lock_guard lock(pool_.mutex_);
    running = false;
    ended = Clock::now();
    pool_.dispatcher_.End(job_);
    pool_.changed_.notify_all();
  }

  bool stopped = false;
  bool waits = false;
  std::optional<Clock::time_point> ended;    // its last iteration, and it has neither begun another nor lost its turn
  bool running = false, overlapped = false;  // the group that was granted last
  std::condition_variable granted_or_stopped;

 private:
  static run::Failure TurnedAway() { return {run::Failure::Kind::kInterrupted, "stopped"}; }
  Bytes Height(int group) const {
    return pool_.dispatcher_.pipeline().Shape(job_).groups[static_cast<std::size_t>(group)].peak;
  }

  // Nothing: the job was stopped.
  std::optional<Grant> Await(std::unique_lock<std::mutex>& lock, bool must) {
    for (;;) {
      if (std::optional<Grant> grant = pool_.dispatcher_.Take(job_)) return grant;
      if (stopped && !must) {
        pool_.dispatcher_.GiveUp(job_);
        pool_.changed_.notify_all();
        return std::nullopt;
      }
      waits = true;
      if (granted_or_stopped.wait_for(lock, pool_.patience_) == std::cv_status::timeout) pool_.RestThoseWhoAreLate();
      waits = false;
    }
  }

  PoolScheduler& pool_;
  const JobId job_;
};

PoolScheduler::PoolScheduler(const DispatcherOptions& options, std::chrono::milliseconds patience)
    : dispatcher_(WithCounts(options)), patience_(patience) {}

PoolScheduler::~PoolScheduler() = default;

// Also wakes the thread that waits for the grant.
DispatcherOptions PoolScheduler::WithCounts(DispatcherOptions options) {
  options.on_grant = [this, told = std::move(options.on_grant)](JobId job, int group, const Grant& grant) {
    JobTurns& turns = *turns_[job.index()];
    turns.running = true;
    turns.overlapped = false;
    for (const std::unique_ptr<JobTurns>& other : turns_) {
      if (!other || other.get() == &turns || !other->running) continue;
      turns.overlapped = other->overlapped = true;
    }
    turns.granted_or_stopped.notify_all();
    if (told) told(job, group, grant);
  };
  return options;
}

void PoolScheduler::GroupHasRun(JobTurns& turns) {
  turns.running = false;
  ++counts_.groups;
  counts_.overlapped += turns.overlapped;
}

Result<JobId> PoolScheduler::Join(const JobShape& shape, const std::function<bool()>& give_up) {
  std::unique_lock lock(mutex_);
  EBB_ASSIGN_OR_RETURN(const JobId job, dispatcher_.Join(shape));
  if (turns_.size() <= job.index()) turns_.resize(job.index() + 1);
  turns_[job.index()] = std::make_unique<JobTurns>(*this, job);
  while (!dispatcher_.pipeline().IsReady(job)) {
    changed_.wait_for(lock, std::chrono::milliseconds(100));
    if (!give_up) continue;
    lock.unlock();
    const bool given_up = give_up();
    lock.lock();
    if (!given_up) continue;
    dispatcher_.Leave(job);
    turns_[job.index()].reset();
    changed_.notify_all();
    return Fail("{}: stopped while it waited to join", shape.name);
  }
  return job;
}

void PoolScheduler::Leave(JobId job) {
  const std::lock_guard lock(mutex_);
  dispatcher_.Leave(job);
  turns_[job.index()].reset();
  changed_.notify_all();
}

Bytes PoolScheduler::StateAddress(JobId job) const {
  const std::lock_guard lock(mutex_);
  return dispatcher_.pipeline().StateAddress(job);
}

void PoolScheduler::SetStartAtEbb(bool start_at_ebb) {
  const std::lock_guard lock(mutex_);
  dispatcher_.SetStartAtEbb(start_at_ebb);
}

run::Turns& PoolScheduler::TurnsOf(JobId job) {
  const std::lock_guard lock(mutex_);
  return *turns_[job.index()];
}

void PoolScheduler::Rest(JobId job) {
  const std::lock_guard lock(mutex_);
  if (!turns_[job.index()]) return;
  turns_[job.index()]->ended.reset();
  dispatcher_.Rest(job);
}

// Called by those who wait, under the lock.
void PoolScheduler::RestThoseWhoAreLate() {
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < turns_.size(); ++i) {
    if (!turns_[i] || !turns_[i]->ended || now - *turns_[i]->ended < patience_) continue;
    turns_[i]->ended.reset();
    dispatcher_.Rest(JobId(i));
  }
}

void PoolScheduler::Stop(JobId job) {
  const std::lock_guard lock(mutex_);
  if (!turns_[job.index()]) return;
  turns_[job.index()]->stopped = true;
  turns_[job.index()]->granted_or_stopped.notify_all();
}

void PoolScheduler::Resume(JobId job) {
  const std::lock_guard lock(mutex_);
  if (turns_[job.index()]) turns_[job.index()]->stopped = false;
}

bool PoolScheduler::stopped(JobId job) const {
  const std::lock_guard lock(mutex_);
  return turns_[job.index()] && turns_[job.index()]->stopped;
}

PoolScheduler::Counts PoolScheduler::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

bool PoolScheduler::waits(JobId job) const {
  const std::lock_guard lock(mutex_);
  return turns_[job.index()] && turns_[job.index()]->waits;
}

}  // namespace ebbtide::share
