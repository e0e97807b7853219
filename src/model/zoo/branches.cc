// Runs the steps of each branch, then its forks, and joins all results by one concatenation.
#include "model/zoo/branches.h"

namespace ebbtide::model::zoo {

TensorId ConvNormRelu(Builder& b, TensorId x, const ConvStep& step) {
  auto layer = b.Enter(step.name);
  nn::Conv conv{.stride = step.stride, .bias = false, .kernel_shape = {step.height, step.width}};
  if (step.padded) conv.padding_shape = {step.height / 2, step.width / 2};
  return op::ReluInPlace(b, nn::BatchNorm2d(b, "bn", nn::Conv2d(b, "conv", x, step.channels, conv)));
}

TensorId Chain(Builder& b, TensorId x, const std::vector<ConvStep>& steps) {
  for (const ConvStep& step : steps) x = ConvNormRelu(b, x, step);
  return x;
}

namespace {

TensorId Run(Builder& b, TensorId x, const Branch& branch) {
  if (branch.pool == BranchPool::kAverage) {
    x = op::AvgPool2d(b, x, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}});
  }
  if (branch.pool == BranchPool::kMaximum) x = op::MaxPool2d(b, x, {.kernel = {3, 3}, .stride = {2, 2}});
  x = Chain(b, x, branch.steps);
  if (branch.forks.empty()) return x;
  std::vector<TensorId> forks;
  for (const ConvStep& fork : branch.forks) forks.push_back(ConvNormRelu(b, x, fork));
  return op::Cat(b, forks, 1);
}

}  // namespace

TensorId JoinBranches(Builder& b, const std::string& name, TensorId x, const std::vector<Branch>& branches) {
  auto layer = b.EnterBlock(name);
  std::vector<TensorId> results;
  for (const Branch& branch : branches) results.push_back(Run(b, x, branch));
  return op::Cat(b, results, 1);
}

}  // namespace ebbtide::model::zoo
