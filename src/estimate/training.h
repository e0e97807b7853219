// A training as PyTorch's allocator sees it: the requests and frees of some iterations of a TrainingGraph, in order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/profile.h"
#include "estimate/sink.h"
#include "graph/graph.h"

namespace ebbtide::estimate {

// Where the loop sets gradients to none.
enum class ZeroGrad : std::uint8_t { kStart, kBeforeBackward, kEnd };

// What a matrix product takes beside its tensors: a workspace for each call (torch 2.15), one for each thread's handle
// for good (torch 2.6), nothing (CUBLAS_WORKSPACE_CONFIG=:0:0).
enum class BlasWorkspacePolicy : std::uint8_t { kPerCall, kKept, kNone };

struct TrainingOptions {
  std::int64_t iterations =
      3;  // the second differs from the first (state, leftovers); the third from the second in layout
  ZeroGrad zero_grad = ZeroGrad::kStart;
  // Whether the loop has a variable for what the model returned, as `out = model(x)` makes it. transformers' Trainer
  // lets go of it before backward.
  bool keeps_outputs = true;
  BlasWorkspacePolicy blas_workspace = BlasWorkspacePolicy::kPerCall;
  // torch.backends.cudnn.benchmark: the first time that a convolution is met, all of cuDNN's engines for it are tried
  // out, in memory for the one that needs most, and then PyTorch gives all memory that it only caches back to the
  // device.
  bool cudnn_benchmark = false;
};

// Tells `sink` what the training asks for by PyTorch's habits, until it has ended or the sink has run out of memory.
// The graph is one that passes Check, with the kernels of CUDA.
void RunTraining(const TrainingGraph& graph, const DeviceProfile& gpu, const TrainingOptions& options, Sink& sink);

}  // namespace ebbtide::estimate
