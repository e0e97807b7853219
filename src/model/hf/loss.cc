// The loss of a causal language model, as transformers' versions and the kernels that replace them compute it.
#include "model/hf/kernels.h"
#include "model/hf/parts.h"
#include "model/zoo/language.h"

namespace ebbtide::model::hf {
namespace {

// Before 4.50 it was the scores that were cut, in a copy, and not the labels that were shifted.
constexpr LibraryVersion kLabelsShifted = {4, 50};
// Before 4.46 the model widened its scores itself and let go of the narrow ones.
constexpr LibraryVersion kLossApart = {4, 46};

// Variables of the function that computes the loss refer to these until it returns.
void HoldUntilReturn(Builder& b, std::initializer_list<TensorId> variables) {
  for (const TensorId id : variables) {
    Storage& storage = b.graph().storages[b.at(id).storage.index()];
    if (!IsPersistent(storage.kind)) storage.released_after = OpId(b.graph().ops.size() - 1);
  }
}

TensorId ShiftedLabels(Builder& b, TensorId labels) {
  TensorId padded = op::ConstantPad(b, labels, {0, 1});
  return op::Reshape(b, op::Contiguous(b, op::Slice(b, padded, 1, 1, b.dim(padded, 1))), {-1});
}

TensorId CutLabels(Builder& b, TensorId labels) {
  return op::Reshape(b, op::Contiguous(b, op::Slice(b, labels, 1, 1, b.dim(labels, 1))), {-1});
}

// scores[..., :-1, :], which torch of the time (2.6 does, 2.15 does not) records as two slices, though the second takes
// all: backward fills zeros twice.
TensorId CutScores(Builder& b, TensorId scores) {
  const TensorId cut = op::Slice(b, scores, 1, 0, b.dim(scores, 1) - 1);
  return op::Contiguous(b, op::Slice(b, cut, -1, 0, b.dim(scores, -1)));
}

// Under autocast accelerate hands out what the model returns in float32: a copy, which the loop drops.
void WidenReturned(Builder& b, TensorId logits) {
  if (b.options().autocast && !b.inference()) op::Cast(b, logits, DType::kFloat32);
}

TensorId CrossEntropy(Builder& b, TensorId scores, TensorId labels) {
  if (b.options().kernels == KernelSet::kPlain) return op::CrossEntropy(b, scores, labels);
  return FusedCrossEntropy(b, scores, labels);
}

}  // namespace

TensorId LanguageLoss(Builder& b, TensorId states, TensorId logits, TensorId labels) {
  if (b.inference()) return logits;
  const std::int64_t length = b.dim(logits, 1), words = b.dim(logits, -1);
  TensorId scores, loss;
  if (b.options().transformers < kLossApart) {  // the model returns the wide ones
    auto layer = b.Enter("lm_head");
    scores = op::Cast(b, logits, DType::kFloat32);
  } else {
    scores = op::Cast(b, logits, DType::kFloat32);
  }
  if (b.options().transformers >= kLabelsShifted || length < 2) {
    TensorId shifted = ShiftedLabels(b, labels);
    loss = CrossEntropy(b, op::Reshape(b, scores, {-1, words}), shifted);
    HoldUntilReturn(b, {states, scores});
    WidenReturned(b, logits);
    return loss;
  }
  TensorId cut = CutScores(b, scores);
  TensorId shifted = CutLabels(b, labels);
  loss = CrossEntropy(b, op::Reshape(b, cut, {-1, words}), shifted);
  HoldUntilReturn(b, {states, scores, cut});
  WidenReturned(b, b.options().transformers < kLossApart ? scores : logits);
  return loss;
}

TensorId LanguageLossOfStates(Builder& b, TensorId states, TensorId weight, TensorId labels) {
  const std::int64_t length = b.dim(states, 1), width = b.dim(states, -1);
  const LossKernel kernel = b.options().loss;
  if (b.options().transformers >= kLabelsShifted || length < 2) {
    TensorId shifted = ShiftedLabels(b, labels);
    const TensorId loss = LinearCrossEntropy(b, kernel, op::Reshape(b, states, {-1, width}), weight, shifted);
    HoldUntilReturn(b, {states});
    return loss;
  }
  TensorId cut = op::Contiguous(b, op::Slice(b, states, 1, 0, length - 1));
  TensorId shifted = CutLabels(b, labels);
  const TensorId loss = LinearCrossEntropy(b, kernel, op::Reshape(b, cut, {-1, width}), weight, shifted);
  HoldUntilReturn(b, {states, cut});
  return loss;
}

}  // namespace ebbtide::model::hf
