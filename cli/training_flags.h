// Flags of the verbs that predict a training: its framework, its loop and its allocator.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/common_flags.h"
#include "jobs/training.h"

namespace ebbtide::cli {

struct TrainingFlags {
  jobs::TrainingRequest request;
  std::vector<std::string> other_batches;  // captures of the same step as MODEL's
};

void AddTrainingFlags(CLI::App& verb, TrainingFlags& flags);
// MODEL and its flags, without --device: it is always CUDA's kernels that run.
void AddCudaModelFlags(CLI::App& verb, ModelFlags& flags);

}  // namespace ebbtide::cli
