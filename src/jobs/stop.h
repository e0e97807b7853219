// Whether whoever waits for a job has asked it to stop.
#pragma once

#include <atomic>
#include <functional>

#include "base/result.h"
#include "jobs/context.h"

namespace ebbtide::jobs {

// Once the context has said stop, it is asked no more and the answer stays: what was cut short is never taken for a
// result. May be asked from several threads. The context must outlive it.
class StopSignal {
 public:
  explicit StopSignal(const JobContext& context) : context_(context) {}
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool Given() {
    if (!given_ && context_.Stopped()) given_ = true;
    return given_;
  }
  // For functions that take one; empty where nobody can stop the job, which spares them the question.
  std::function<bool()> Function() {
    if (!context_.stop) return {};
    return [this] { return Given(); };
  }
  // An error of ErrorKind::kStopped once it was given.
  Status Check() {
    if (Given()) return FailAs(ErrorKind::kStopped, "stopped before it was done");
    return {};
  }

 private:
  const JobContext& context_;
  std::atomic<bool> given_ = false;
};

}  // namespace ebbtide::jobs
