// Captures a SCRIPT.py:function by starting Python, with CUDA's kernels where the verb is about a GPU.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/common_flags.h"
#include "jobs/context.h"

namespace ebbtide::cli {

// An error of ErrorKind::kTold was already told to the user by the program that it started.
class PythonCapturer : public jobs::Capturer {
 public:
  explicit PythonCapturer(const OutputFlags& output) : output_(output) {}

  Result<TrainingGraph> Capture(const jobs::ModelRequest& request) override;
  Result<std::vector<TrainingGraph>> CaptureBatches(const jobs::ModelRequest& request) override;

 private:
  // Captures into `file`, a .json; `extra` are further words of the capture's command line.
  Status Run(const jobs::ModelRequest& request, const std::string& file, const std::vector<std::string>& extra) const;

  OutputFlags output_;
};

}  // namespace ebbtide::cli
