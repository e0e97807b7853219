// Losses.
#include "model/autocast_rules.h"
#include "model/ops.h"

namespace ebbtide::model::op {

TensorId CrossEntropy(Builder& b, TensorId logits, TensorId target) {
  if (b.inference()) return logits;
  // torch's cross_entropy names the type of its log_softmax, which autocast then leaves alone.
  TensorId log_probabilities =
      b.CallOne("_log_softmax", {{"self", logits}, {"dim", std::int64_t{1}}}, {b.shape(logits), b.at(logits).dtype});
  Autocast(b, "nll_loss", {&log_probabilities});
  std::string kind = b.shape(logits).size() == 4 ? "nll_loss2d_forward" : "nll_loss_forward";
  return b.Call(kind, {{"self", log_probabilities}, {"target", target}},
                {{{}, b.at(log_probabilities).dtype}, {{}, b.at(log_probabilities).dtype}})[0];
}

}  // namespace ebbtide::model::op
