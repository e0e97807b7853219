// Inception v3 (Szegedy et al. 2015), as torchvision defines it. In training an auxiliary classifier's loss counts for
// 0.4.
#include "model/zoo/branches.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

std::vector<Branch> BlockA(std::int64_t pool_channels) {
  return {{.steps = {{"branch1x1", 64, 1, 1}}},
          {.steps = {{"branch5x5_1", 48, 1, 1}, {"branch5x5_2", 64, 5, 5}}},
          {.steps = {{"branch3x3dbl_1", 64, 1, 1}, {"branch3x3dbl_2", 96, 3, 3}, {"branch3x3dbl_3", 96, 3, 3}}},
          {.steps = {{"branch_pool", pool_channels, 1, 1}}, .pool = BranchPool::kAverage}};
}

std::vector<Branch> BlockB() {
  return {
      {.steps = {{"branch3x3", 384, 3, 3, 2, false}}},
      {.steps = {{"branch3x3dbl_1", 64, 1, 1}, {"branch3x3dbl_2", 96, 3, 3}, {"branch3x3dbl_3", 96, 3, 3, 2, false}}},
      {.pool = BranchPool::kMaximum}};
}

std::vector<Branch> BlockC(std::int64_t narrow) {
  return {{.steps = {{"branch1x1", 192, 1, 1}}},
          {.steps = {{"branch7x7_1", narrow, 1, 1}, {"branch7x7_2", narrow, 1, 7}, {"branch7x7_3", 192, 7, 1}}},
          {.steps = {{"branch7x7dbl_1", narrow, 1, 1},
                     {"branch7x7dbl_2", narrow, 7, 1},
                     {"branch7x7dbl_3", narrow, 1, 7},
                     {"branch7x7dbl_4", narrow, 7, 1},
                     {"branch7x7dbl_5", 192, 1, 7}}},
          {.steps = {{"branch_pool", 192, 1, 1}}, .pool = BranchPool::kAverage}};
}

std::vector<Branch> BlockD() {
  return {{.steps = {{"branch3x3_1", 192, 1, 1}, {"branch3x3_2", 320, 3, 3, 2, false}}},
          {.steps = {{"branch7x7x3_1", 192, 1, 1},
                     {"branch7x7x3_2", 192, 1, 7},
                     {"branch7x7x3_3", 192, 7, 1},
                     {"branch7x7x3_4", 192, 3, 3, 2, false}}},
          {.pool = BranchPool::kMaximum}};
}

std::vector<Branch> BlockE() {
  return {{.steps = {{"branch1x1", 320, 1, 1}}},
          {.steps = {{"branch3x3_1", 384, 1, 1}}, .forks = {{"branch3x3_2a", 384, 1, 3}, {"branch3x3_2b", 384, 3, 1}}},
          {.steps = {{"branch3x3dbl_1", 448, 1, 1}, {"branch3x3dbl_2", 384, 3, 3}},
           .forks = {{"branch3x3dbl_3a", 384, 1, 3}, {"branch3x3dbl_3b", 384, 3, 1}}},
          {.steps = {{"branch_pool", 192, 1, 1}}, .pool = BranchPool::kAverage}};
}

TensorId AuxiliaryScores(Builder& b, TensorId x, std::int64_t classes) {
  auto layer = b.Enter("AuxLogits");
  x = op::AvgPool2d(b, x, {.kernel = {5, 5}, .stride = {3, 3}});
  x = Chain(b, x, {{"conv0", 128, 1, 1}, {"conv1", 768, 5, 5, 1, false}});
  return nn::Linear(b, "fc", op::Flatten(b, op::AdaptiveAvgPool2d(b, x, 1, 1), 1), classes);
}

// In inference the auxiliary classifier is not called, but its weights are there.
TensorId UnusedAuxiliary(Builder& b, std::int64_t classes) {
  auto layer = b.Enter("AuxLogits");
  auto conv = [&](const std::string& name, Dims shape) {
    auto inner = b.Enter(name);
    for (const char* vector : {"bn.weight", "bn.bias"}) b.Parameter(vector, {shape[0]});
    for (const char* vector : {"bn.running_mean", "bn.running_var"}) b.Buffer(vector, {shape[0]});
    b.Buffer("bn.num_batches_tracked", {}, DType::kInt64);
    b.Parameter("conv.weight", std::move(shape));
  };
  conv("conv0", {128, 768, 1, 1});
  conv("conv1", {768, 128, 5, 5});
  b.Parameter("fc.weight", {classes, 768});
  b.Parameter("fc.bias", {classes});
  return {};
}

TensorId InceptionV3(Builder& b, const Sizes& sizes) {
  const op::PoolOptions pool{.kernel = {3, 3}, .stride = {2, 2}};
  auto [x, labels] = ImageInput(b, sizes);
  x = Chain(
      b, x,
      {{"Conv2d_1a_3x3", 32, 3, 3, 2, false}, {"Conv2d_2a_3x3", 32, 3, 3, 1, false}, {"Conv2d_2b_3x3", 64, 3, 3}});
  x = op::MaxPool2d(b, x, pool);
  x = Chain(b, x, {{"Conv2d_3b_1x1", 80, 1, 1}, {"Conv2d_4a_3x3", 192, 3, 3, 1, false}});
  x = op::MaxPool2d(b, x, pool);
  x = JoinBranches(b, "Mixed_5b", x, BlockA(32));
  x = JoinBranches(b, "Mixed_5c", x, BlockA(64));
  x = JoinBranches(b, "Mixed_5d", x, BlockA(64));
  x = JoinBranches(b, "Mixed_6a", x, BlockB());
  x = JoinBranches(b, "Mixed_6b", x, BlockC(128));
  x = JoinBranches(b, "Mixed_6c", x, BlockC(160));
  x = JoinBranches(b, "Mixed_6d", x, BlockC(160));
  x = JoinBranches(b, "Mixed_6e", x, BlockC(192));
  TensorId auxiliary = b.inference() ? UnusedAuxiliary(b, sizes.classes) : AuxiliaryScores(b, x, sizes.classes);
  x = JoinBranches(b, "Mixed_7a", x, BlockD());
  x = JoinBranches(b, "Mixed_7b", x, BlockE());
  x = JoinBranches(b, "Mixed_7c", x, BlockE());
  x = op::Flatten(b, op::Dropout(b, op::AdaptiveAvgPool2d(b, x, 1, 1), 0.5), 1);
  TensorId loss = op::CrossEntropy(b, nn::Linear(b, "fc", x, sizes.classes), labels);
  if (b.inference()) return loss;
  return op::Add(b, loss, op::WithScalar(b, "mul", op::CrossEntropy(b, auxiliary, labels), 0.4));
}

}  // namespace

Family Inceptions() {
  return {
      "convolutional",
      {{"inception_v3", "torchvision with auxiliary classifier, 299x299", {.image = 299, .classes = 1000}, InceptionV3},
       {"inception_v4", "timm, 299x299", {.image = 299, .classes = 1000}, InceptionV4}}};
}

}  // namespace ebbtide::model::zoo
