// Flags of the verbs that predict a training: its framework, its loop and its allocator.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/common_flags.h"
#include "estimate/estimate.h"

namespace ebbtide::cli {

struct TrainingFlags {
  std::string framework = "pytorch";
  std::string zero_grad = "start";
  std::int64_t iterations = 3;
  std::string alloc_conf;
  std::vector<std::string> other_batches;  // captures of the same step as MODEL's
  std::string cublas_workspace;            // empty: as the framework has it
};

void AddTrainingFlags(CLI::App& verb, TrainingFlags& flags);
// MODEL and its flags, without --device: it is always CUDA's kernels that run.
void AddCudaModelFlags(CLI::App& verb, ModelFlags& flags);

// All but the GPU.
Result<estimate::Options> OptionsOf(const TrainingFlags& flags);

}  // namespace ebbtide::cli
