// How PyTorch splits a reduction between threads, warps and blocks (its Reduce.cuh). Where several blocks work on one
// result, each leaves its part in global memory, and a counter for each column of blocks says which one is the last.
#include <algorithm>
#include <bit>

#include "estimate/scratch_rules.h"
#include "graph/arguments.h"
#include "graph/dtype.h"

namespace ebbtide::estimate {
namespace {

struct Axis {
  std::int64_t size = 1, stride = 0;  // in elements of the input
};

std::int64_t DivideUp(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

std::int64_t PowerOfTwoUpTo(std::int64_t value, std::int64_t limit) {
  if (value >= limit) return limit;
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 1))));
}

// Axes that lie one in the other count as one.
void Merge(std::vector<Axis>& axes) {
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (!merged.empty() && axis.stride == SaturatingMul(merged.back().stride, merged.back().size)) {
      merged.back().size = SaturatingMul(merged.back().size, axis.size);
    } else {
      merged.push_back(axis);
    }
  }
  axes = std::move(merged);
}

std::int64_t CountOf(const std::vector<Axis>& axes) {
  std::int64_t count = 1;
  for (const Axis& axis : axes) count = SaturatingMul(count, axis.size);
  return count;
}

// What is reduced, fastest axis first, and what is kept, in the order of the result's memory.
struct Reduction {
  std::vector<Axis> reduced, kept;
  std::int64_t offset = 0;
};

Reduction ReductionOf(const Tensor& from, const Dims& axes) {
  const std::int64_t rank = static_cast<std::int64_t>(from.shape.size());
  std::vector<bool> is_reduced(from.shape.size(), axes.empty());
  for (const std::int64_t axis : axes) {
    const std::int64_t place = axis < 0 ? axis + rank : axis;
    if (place >= 0 && place < rank) is_reduced[static_cast<std::size_t>(place)] = true;
  }
  Reduction reduction;
  reduction.offset = from.offset;
  for (std::size_t i = from.shape.size(); i-- > 0;) {
    if (from.shape[i] <= 1) continue;
    (is_reduced[i] ? reduction.reduced : reduction.kept).push_back({from.shape[i], from.stride[i]});
  }
  std::ranges::stable_sort(reduction.reduced, {}, &Axis::stride);
  Merge(reduction.reduced);
  Merge(reduction.kept);
  return reduction;
}

// How many neighbouring results a thread can load at once: what all places are multiples of, at most 4.
std::int64_t ResultsPerThread(const Reduction& reduction) {
  std::int64_t width = 4;
  const auto divides = [&](std::int64_t value) {
    while (value % width != 0) width /= 2;
  };
  divides(reduction.offset);
  divides(reduction.kept.front().size);
  for (const Axis& axis : reduction.reduced) divides(axis.stride);
  for (std::size_t i = 1; i < reduction.kept.size(); ++i) divides(reduction.kept[i].stride);
  return width;
}

constexpr std::int64_t kThreads = 512, kWarp = 32;
constexpr std::int64_t kFewestValues = 16, kMostValues = 256;  // for each thread, where there is a choice
constexpr std::int64_t kVectorWidth = 4, kLeastToVectorize = 128;

// Sums of half precision are float32 as well.
Bytes PartialSize(DType dtype) { return std::max<Bytes>(ItemSize(dtype), 4); }

}  // namespace

void AddReduction(const Tensor& from, const Dims& axes, const DeviceProfile& gpu, std::size_t after_results,
                  ScratchList& scratch) {
  const Reduction reduction = ReductionOf(from, axes);
  if (reduction.reduced.empty()) return;
  const std::int64_t results = CountOf(reduction.kept), values = CountOf(reduction.reduced);
  const bool along_rows = reduction.kept.empty() || reduction.reduced.front().stride < reduction.kept.front().stride;
  std::int64_t across = along_rows ? values : results;  // the block's axis of neighbouring elements, and the other
  const std::int64_t down = along_rows ? results : values;
  std::int64_t results_per_thread = 1;
  if (along_rows && reduction.kept.empty() && reduction.reduced.size() == 1 && reduction.reduced.front().stride == 1 &&
      across > kLeastToVectorize) {
    across /= kVectorWidth;
  } else if (!along_rows && reduction.kept.front().stride == 1) {
    results_per_thread = ResultsPerThread(reduction);
    across /= results_per_thread;
  }
  const std::int64_t most = kThreads / results_per_thread;
  const std::int64_t widest = PowerOfTwoUpTo(across, most);
  std::int64_t width = std::min(widest, kWarp);
  const std::int64_t height = std::min(PowerOfTwoUpTo(down, most), most / width);
  width = std::min(widest, most / height);

  std::int64_t steps = along_rows ? width : 1;  // values that a block takes at once
  if (DivideUp(values, steps) < std::min(height * kFewestValues, kMostValues)) return;  // each warp has its own results
  steps *= height;
  const std::int64_t per_thread = DivideUp(values, steps);
  const std::int64_t columns = DivideUp(results / results_per_thread, along_rows ? 1 : width);
  const std::int64_t at_once = gpu.multiprocessors * (gpu.threads_per_multiprocessor / (width * height));
  if (per_thread < kMostValues || columns > at_once) return;
  const std::int64_t blocks = std::max(std::min(DivideUp(at_once, columns), DivideUp(per_thread, kFewestValues)),
                                       DivideUp(per_thread, kMostValues));
  if (blocks <= 1) return;
  const std::int64_t parts = along_rows ? 1 : width * results_per_thread;  // a block's threads keep theirs apart
  const Bytes partial_results = SaturatingMul(SaturatingMul(results, blocks), PartialSize(from.dtype) * parts);
  const ScratchList::Place place = scratch.Take(after_results, partial_results);
  scratch.TakeAndRelease(after_results, SaturatingMul(4, columns));
  scratch.Release(place, after_results);
}

void ReductionScratch(const ScratchQuery& query, ScratchList& scratch) {
  const Tensor* from = query.Argument("self");
  if (from == nullptr) from = query.Argument("input");
  if (from == nullptr) return;
  Dims axes;
  if (const Dims* several = ArgumentAs<Dims>(query.op, "dim")) axes = *several;
  if (const std::int64_t* one = ArgumentAs<std::int64_t>(query.op, "dim")) axes = {*one};
  const Dims& made = query.graph.tensor(query.op.outputs.front()).shape;
  if (axes.empty() && made.size() == from->shape.size()) {  // an op that does not say them shows them
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (made[i] != from->shape[i]) axes.push_back(static_cast<std::int64_t>(i));
    }
    if (axes.empty()) return;
  }
  // Whole numbers and truth values are copied as numbers of the result's size, and those summed up.
  const Tensor& result = query.graph.tensor(query.op.outputs.front());
  Tensor summed = *from;
  if (!IsFloating(from->dtype) && ItemSize(result.dtype) != ItemSize(from->dtype)) {
    summed.dtype = result.dtype;
    scratch.Take(1, SizeOf(summed));
  }
  AddReduction(summed, axes, query.gpu, 1, scratch);
}

}  // namespace ebbtide::estimate
