// A job of src/jobs as Python calls it.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>
#include <utility>

#include "base/result.h"
#include "jobs/context.h"
#include "module.h"

namespace ebbtide::core {

// How a job is run, beside its Request.
struct JobOptions {
  std::uint64_t seed = 0;
  int threads = 0;            // 0: as many as there are processors
  nanobind::object progress;  // None, or a function of (phase, share of it that is done, note)
};

// Runs `work` on a thread of its own, and waits for it without the interpreter's lock. The calling thread passes the
// job's progress on to Python and looks for signals many times a second; what a signal's handler or the progress
// function raises stops the job, and is raised again once the job has returned.
void RunOnThread(const JobOptions& options, const std::function<void(const jobs::JobContext&)>& work);

// The job's result; raises its error.
template <class Work>
auto RunJob(const JobOptions& options, const Work& work) {
  using Outcome = decltype(work(std::declval<const jobs::JobContext&>()));
  std::optional<Outcome> outcome;
  RunOnThread(options, [&](const jobs::JobContext& context) { outcome.emplace(work(context)); });
  return ValueOr(*std::move(outcome));
}

}  // namespace ebbtide::core
