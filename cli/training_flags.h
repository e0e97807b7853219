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
  std::string framework;  // empty: by the model
  std::string zero_grad = "start";
  std::int64_t iterations = 3;
  std::string alloc_conf;
  std::string pool;                        // of MXNet and TensorFlow; empty: their default
  std::vector<std::string> other_batches;  // captures of the same step as MODEL's
  std::string cublas_workspace;            // empty: as the framework has it
};

void AddTrainingFlags(CLI::App& verb, TrainingFlags& flags);
// MODEL and its flags, without --device: it is always CUDA's kernels that run.
void AddCudaModelFlags(CLI::App& verb, ModelFlags& flags);

// The framework of flags that name none, by the model; tells the model which it is. Before OptionsOf.
Status ChooseFramework(TrainingFlags& training, ModelFlags& model);
// All but the GPU.
Result<estimate::Options> OptionsOf(const TrainingFlags& flags);

}  // namespace ebbtide::cli
