// How a training is run, as the command line and Python say it: its framework, its loop and its allocator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimate/estimate.h"
#include "jobs/model.h"

namespace ebbtide::jobs {

// Names and numbers as they were given; ParseTraining says which there are.
struct TrainingRequest {
  std::string framework = {};         // "pytorch", "pytorch-2.6", "mxnet", ...; empty: that of the file, else pytorch
  std::string torch = {};             // the version that is installed, as "2.8.0+cu128", which "pytorch" stands for
  std::string loop = {};              // "plain", "trainer"; empty: trainer for a Hugging Face configuration, else plain
  std::string zero_grad = {};         // where the loop drops gradients; empty: as the loop does, "start" or "end"
  std::int64_t iterations = 3;        // to go through
  std::string alloc_conf = {};        // as in PYTORCH_ALLOC_CONF
  std::string pool = {};              // of MXNet and TensorFlow; empty: their default
  std::string cublas_workspace = {};  // empty: as the framework has it
  bool cudnn_benchmark = false;       // the program sets torch.backends.cudnn.benchmark
};

struct Training {
  Framework framework = Framework::kPytorch;  // goes into the options of the model
  std::string version = {};                   // "pytorch-2.8", "mxnet": whose runtime the options are those of
  estimate::Options options;                  // all but the GPU
};

// Fails where a name is not known, where two contradict each other, and where the framework is not that of the file.
Result<Training> ParseTraining(const TrainingRequest& request, const ModelRequest& model);

// What TrainingRequest::framework may be.
std::vector<std::string> FrameworkNames();

// "start", ...: the words of TrainingRequest::zero_grad.
const char* Name(estimate::ZeroGrad place);

}  // namespace ebbtide::jobs
