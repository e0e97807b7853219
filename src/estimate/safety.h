// The figure to rent or reserve by: an estimate with a margin, and how often that is enough.
// The one place where the margin's rule and its numbers stand; docs/estimate.md gives their grounds.
#pragma once

#include "estimate/estimate.h"

namespace ebbtide::estimate {

// What the margin is made of.
struct SafetyRule {
  double share = 0.03;        // of the total: layout, versions of the framework
  Bytes least = 64 * kMiB;    // kernels that are loaded, handles of libraries: they do not grow with the job
  double probability = 0.97;  // with which the figure is meant to be enough
};

struct SafeFigure {
  Bytes bytes = 0;             // total() and the margin
  Bytes layout_margin = 0;     // the larger of the share and the least
  Bytes workspace_margin = 0;  // the largest convolution workspace once more: cuDNN may pick another algorithm
  double probability = 0;
};

SafeFigure SafeTotal(const Estimate& estimate, const TrainingGraph& graph, const DeviceProfile& gpu,
                     const SafetyRule& rule = {});

}  // namespace ebbtide::estimate
