// Tells the pipeline what has happened, and asks it again for those who wait.
#include "share/scheduler/dispatcher.h"

#include <utility>

namespace ebbtide::share {

Dispatcher::Dispatcher(DispatcherOptions options) : options_(std::move(options)), pipeline_(options_.pipeline) {}

Result<JobId> Dispatcher::Join(const JobShape& shape) {
  EBB_ASSIGN_OR_RETURN(const JobId job, pipeline_.Join(shape));
  members_.resize(job.index() + 1);
  Dispatch();
  return job;
}

void Dispatcher::Leave(JobId job) {
  pipeline_.Leave(job);
  members_[job.index()] = {};
  Dispatch();
}

void Dispatcher::SetStartAtEbb(bool start_at_ebb) {
  pipeline_.SetStartAtEbb(start_at_ebb);
  Dispatch();
}

void Dispatcher::Begin(JobId job) {
  members_[job.index()] = {.asks = 0};
  Dispatch();
}

void Dispatcher::Next(JobId job, int group) {
  GroupHasRun(job, group - 1);
  members_[job.index()].asks = group;
  Dispatch();
}

void Dispatcher::Left(JobId job) {
  GroupHasRun(job, Groups(job) - 1);
  members_[job.index()].has_left = true;
  Dispatch();
}

void Dispatcher::End(JobId job) {
  if (!members_[job.index()].has_left) {
    pipeline_.Abort(job);
  } else if (options_.runs_ahead) {
    for (int group = 0; group < Groups(job); ++group) pipeline_.Finished(job, group);
  }
  members_[job.index()] = {};
  Dispatch();
}

void Dispatcher::GiveUp(JobId job) {
  Member& member = members_[job.index()];
  if (member.asks == 0) pipeline_.Withdraw(job);
  member.asks.reset();
  Dispatch();
}

void Dispatcher::Rest(JobId job) {
  pipeline_.Withdraw(job);
  Dispatch();
}

std::optional<Grant> Dispatcher::Take(JobId job) { return std::exchange(members_[job.index()].granted, std::nullopt); }

void Dispatcher::GroupHasRun(JobId job, int group) {
  if (options_.runs_ahead) {
    pipeline_.Queued(job, group);
  } else {
    pipeline_.Finished(job, group);
  }
}

void Dispatcher::Dispatch() {
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      Member& member = members_[i];
      if (!member.asks) continue;
      member.granted = pipeline_.TryStart(JobId(i), *member.asks);
      if (!member.granted) continue;
      const int group = *std::exchange(member.asks, std::nullopt);
      if (options_.on_grant) options_.on_grant(JobId(i), group, *member.granted);
      again = true;
    }
  }
}

}  // namespace ebbtide::share
