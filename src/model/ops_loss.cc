// Losses.
#include "model/ops.h"

namespace ebbtide::model::op {

TensorId CrossEntropy(Builder& b, TensorId logits, TensorId target) {
  TensorId log_probabilities = LogSoftmax(b, logits, 1);
  std::string kind = b.shape(logits).size() == 4 ? "nll_loss2d_forward" : "nll_loss_forward";
  return b.Call(kind, {{"self", log_probabilities}, {"target", target}},
                {{{}, b.at(logits).dtype}, {{}, b.at(logits).dtype}})[0];
}

}  // namespace ebbtide::model::op
