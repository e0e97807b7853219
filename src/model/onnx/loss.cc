// Chooses the loss by the shape of the first floating output.
#include "model/onnx/loss.h"

#include <algorithm>

#include "base/json_text.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

TensorId LossOf(Builder& b, TensorId output, const std::string& labels) {
  const Dims shape = b.shape(output);
  switch (shape.size()) {
    case 2: return op::CrossEntropy(b, output, b.Input(labels, {shape[0]}, DType::kInt64));
    case 3: {
      TensorId words = b.Input(labels, {shape[0], shape[1]}, DType::kInt64);
      TensorId scores = op::Flatten(b, output, 0, 1);
      return op::CrossEntropy(b, scores, op::Flatten(b, words, 0, 1));
    }
    case 4: return op::CrossEntropy(b, output, b.Input(labels, {shape[0], shape[2], shape[3]}, DType::kInt64));
    default: return op::Mean(b, output, {}, false);
  }
}

}  // namespace

std::vector<TensorId> OutputTensors(const Lowering& state) {
  std::vector<TensorId> outputs;
  for (ValueId id : state.file.outputs) {
    const TensorId output = state.values[id].tensor;
    if (output.valid() && std::ranges::find(outputs, output) == outputs.end()) outputs.push_back(output);
  }
  return outputs;
}

Result<TensorId> MakeLoss(Lowering& state) {
  Builder& b = state.b;
  b.set_layer("");
  if (b.inference()) {
    const std::vector<TensorId> outputs = OutputTensors(state);
    if (outputs.empty()) return Fail("no output is a tensor: expected a model with one");
    return outputs[0];
  }
  TensorId loss, first;
  int count = 0;
  for (ValueId id : state.file.outputs) {
    const TensorId output = state.values[id].tensor;
    if (!output.valid() || !b.NeedsGrad(output)) continue;
    if (first.valid() && b.shape(output) != b.shape(first)) continue;
    if (first.valid() && output == first) continue;
    if (!first.valid()) first = output;
    TensorId part = LossOf(b, output, count == 0 ? "labels" : "labels" + std::to_string(count));
    loss = loss.valid() ? op::Add(b, loss, part) : part;
    ++count;
  }
  if (!loss.valid()) return Fail("no floating output depends on a parameter: expected a model that can be trained");
  return loss;
}

}  // namespace ebbtide::model::onnx
