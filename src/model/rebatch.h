// One step at any batch, from captures of it at two batches: the ops are the same, and every size that differs lies on
// the line through the two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace ebbtide::model {

class AnyBatch {
 public:
  // The batch of a capture is the first size that differs between its inputs and the other's. Fails where the two are
  // not the same step, or a size cannot lie on a line, and names the op.
  static Result<AnyBatch> Make(const TrainingGraph& first, const TrainingGraph& second);

  // Fails where a capture at a third batch is not, to the last number, what At gives for it.
  Status Confirm(const TrainingGraph& third) const;

  // A graph that passes Check. Fails where a size would not be whole, or leave its range.
  Result<TrainingGraph> At(std::int64_t batch) const;

  std::int64_t first_batch() const { return first_batch_; }
  std::int64_t second_batch() const { return second_batch_; }

 private:
  // A number of the graph that differs: number `index` in the order of a walk over the graph.
  struct Step {
    std::size_t index = 0;
    std::int64_t rise = 0;  // from the first to the second batch
  };
  enum class Growth : std::uint8_t { kLinear, kReciprocal };
  struct FloatStep {
    std::size_t index = 0;
    Growth growth = Growth::kLinear;
    std::int64_t first = 0, rise = 0;  // of the value, or of what it is the reciprocal of
  };

  Result<TrainingGraph> Unchecked(std::int64_t batch) const;
  Result<std::int64_t> OnLine(std::int64_t first, std::int64_t rise, std::int64_t batch) const;

  TrainingGraph graph_;  // of the first batch; without values of constants that depend on the batch
  std::int64_t first_batch_ = 0, second_batch_ = 0;
  std::vector<Step> steps_;
  std::vector<FloatStep> float_steps_;
  std::vector<std::string> batch_keys_;  // of `meta`, whose value is the batch
};

}  // namespace ebbtide::model
