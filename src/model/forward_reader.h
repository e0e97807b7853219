// How translators to other frameworks read the ops of a forward pass.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/arguments.h"
#include "graph/graph.h"
#include "graph/shape.h"

namespace ebbtide::model {

// The graph must outlive it.
class ForwardReader {
 protected:
  explicit ForwardReader(const TrainingGraph& graph) : graph_(graph) {}

  bool Has(const Op& op, std::string_view name) const { return TensorArgument(op, name).valid(); }
  const Dims& ShapeOf(const Op& op, std::string_view name) const {
    return graph_.tensor(TensorArgument(op, name)).shape;
  }
  const Dims& OutputShape(const Op& op) const { return graph_.tensor(op.outputs[0]).shape; }
  // Elements of the weights of all layers of a recurrent op: other frameworks have them as one vector.
  std::int64_t RecurrentWeights(const Op& op) const {
    std::int64_t count = 0;
    for (const TensorId id : ArgumentAs<TensorList>(op, "weight")->ids) {
      count += ElementCount(graph_.tensor(id).shape).value_or(0);
    }
    return count;
  }

  const TrainingGraph& graph_;
};

}  // namespace ebbtide::model
