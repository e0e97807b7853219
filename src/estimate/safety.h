// The figure to rent or reserve by: an estimate with a margin, and how often that is enough.
// The one place where the margin's rule and its numbers stand; docs/accuracy.md gives their grounds.
#pragma once

#include "estimate/estimate.h"

namespace ebbtide::estimate {

// What the margin is made of.
struct SafetyRule {
  double share = 0.05;  // of the total: versions of the framework and its libraries
  // And one block more, as large as the largest that comes and goes: that an allocator, with its blocks a little
  // otherwise, finds no place for it in what it has is the usual way for a job to take more. Of shards that are
  // gathered and reduced on streams of their own, one of each stream, as streams do not lend each other memory.
  bool one_more_block = true;
  // Kernels that are loaded and handles of libraries, which do not grow with the job: the most that was seen
  // (device/runtime.h), beside what the estimate has.
  Bytes code = 94 * kMiB;

  // Where blocks may come in other sizes than the graph's, this share of what is reserved beyond weights, gradients and
  // state takes the place of the first two, if it is more.
  double varying_share = 0.2;
  // Around grouped convolutions cuDNN at times picks engines that take far more than the rules have it: where a graph
  // has such, and at least this share of the bytes that forward makes comes from cuDNN's convolutions.
  double convolutions_from = 0.1;
  // Texts differ in length from batch to batch: the longest of few varies, that of more is at the limit.
  std::int64_t few_texts = 10;

  double probability = 0.97;  // with which the figure is meant to be enough
};

struct SafeFigure {
  Bytes bytes = 0;          // total() and the three margins
  Bytes layout_margin = 0;  // the share, one more block, the code, and what loading may leave (wrapped_units.h)
  Bytes varying_margin =
      0;  // what blocks of other sizes ask for beyond that; 0 where there is no reason to expect them
  Bytes context_margin = 0;  // by how much the context may exceed what the estimate has
  double probability = 0;
};

SafeFigure SafeTotal(const Estimate& estimate, const TrainingGraph& graph, const SafetyRule& rule = {});

}  // namespace ebbtide::estimate
