// The operators of TensorFlow that we know, as a table.
#pragma once

#include <string_view>

#include "model/tensorflow/inference.h"

namespace ebbtide::model::tensorflow {

struct Operator {
  std::string_view name;
  ShapeRule shapes;
  std::string_view kind;  // of its op in a TrainingGraph
  // What its kernel does with buffers: "alias" (its first output is its first input under another shape), "0", "01"
  // (it may write its first result over these inputs if nobody else needs them), "*" (over any), "0>1" (its second
  // result over its first input), "" (it takes a new one).
  std::string_view buffers = "";
};

// Null where the operator is not known.
const Operator* FindOperator(std::string_view op);

}  // namespace ebbtide::model::tensorflow
