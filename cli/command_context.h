// What a job gets from the command line beside its Request: a line of progress, a Python to capture with, and the
// common flags.
#pragma once

#include "cli/common_flags.h"
#include "cli/progress.h"
#include "cli/python_capturer.h"
#include "jobs/context.h"

namespace ebbtide::cli {

// Lives as long as its job() is in use; the line of progress is erased with it. Ctrl-C stops the job.
class CommandContext {
 public:
  explicit CommandContext(const OutputFlags& flags);
  CommandContext(const CommandContext&) = delete;
  CommandContext& operator=(const CommandContext&) = delete;

  const jobs::JobContext& job() const { return job_; }

 private:
  ProgressLine progress_;
  PythonCapturer capturer_;
  jobs::JobContext job_;
};

}  // namespace ebbtide::cli
