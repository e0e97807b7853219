// Runs groups in every stream's order, and looks for addresses that two of them use at once.
#include "tests/share/device_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace ebbtide::share::testing {

void DeviceModel::AddJob(const JobShape& shape) {
  streams_.push_back({.shape = std::make_shared<const JobShape>(shape), .queue = {}, .span = {}});
}

void DeviceModel::Launch(JobId job, int group, const Grant& grant) {
  streams_[job.index()].queue.push_back({group, grant.iteration, grant.span, grant.wait_for});
}

bool DeviceModel::IsOver(const Awaited& awaited) const {
  return std::ranges::none_of(streams_[awaited.job.index()].queue, [&](const Launched& launched) {
    return std::tie(launched.iteration, launched.group) <= std::tie(awaited.iteration, awaited.group);
  });
}

std::vector<JobId> DeviceModel::Running() const {
  std::vector<JobId> out;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const auto& queue = streams_[i].queue;
    if (queue.empty()) continue;
    if (std::ranges::all_of(queue.front().wait_for, [&](const Awaited& a) { return IsOver(a); }))
      out.push_back(JobId(i));
  }
  return out;
}

int DeviceModel::Finish(JobId job) {
  Stream& stream = streams_[job.index()];
  const Launched done = stream.queue.front();
  stream.queue.pop_front();
  stream.span = done.span;
  stream.held = stream.shape->groups[done.group].after;
  return done.group;
}

void DeviceModel::Abort(JobId job) {
  Stream& stream = streams_[job.index()];
  stream.queue.clear();
  stream.held = 0;
}

std::string DeviceModel::Check(const Pipeline& pipeline) const {
  struct Used {
    Bytes begin, end;
    std::string whose;
  };
  std::vector<Used> used;
  const std::vector<JobId> running = Running();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Stream& stream = streams_[i];
    const JobId job(i);
    if (!pipeline.IsMember(job)) continue;
    const auto use = [&](const LaneSpan& span, Bytes height) {
      const Bytes at = span.Address(0, height);
      if (height > 0)
        used.push_back({at, at + height, fmt::format("the transient storages of {}", stream.shape->name)});
    };
    const bool runs = std::ranges::find(running, job) != running.end();
    if (runs) {
      const Launched& first = stream.queue.front();
      if (stream.held > 0 && first.span.Address(0, 1) != stream.span.Address(0, 1))
        return stream.shape->name + " moved within an iteration";
      use(first.span, stream.shape->groups[first.group].peak);
    } else {
      use(stream.span, stream.held);
    }
    const Bytes state = pipeline.StateAddress(job);
    if (pipeline.IsReady(job) && stream.shape->persistent > 0) {
      used.push_back({state, state + stream.shape->persistent, fmt::format("the state of {}", stream.shape->name)});
    }
  }
  std::ranges::sort(used, {}, &Used::begin);
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i].begin < 0 || used[i].end > pipeline.regions().capacity())
      return used[i].whose + ": beyond the capacity";
    if (i > 0 && used[i - 1].end > used[i].begin)
      return fmt::format("{} collide with {}", used[i - 1].whose, used[i].whose);
  }
  return {};
}

std::vector<std::int64_t> DeviceModel::Fingerprint() const {
  std::vector<std::int64_t> out;
  for (const Stream& stream : streams_) {
    out.push_back(stream.held);
    out.push_back(stream.held > 0 ? static_cast<int>(stream.span.end) : 0);
    for (const Launched& launched : stream.queue) {
      out.push_back(-launched.group - 1);
      for (const Awaited& awaited : launched.wait_for) {
        if (!IsOver(awaited)) out.push_back(awaited.job.value * 100 + awaited.group);
      }
    }
    out.push_back(-1000);
  }
  return out;
}

}  // namespace ebbtide::share::testing
