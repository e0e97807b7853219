// Inception v4 (Szegedy et al. 2016), as timm defines it.
#include "model/zoo/branches.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

std::vector<Branch> BlockA() {
  return {{.steps = {{"branch0", 96, 1, 1}}},
          {.steps = {{"branch1.0", 64, 1, 1}, {"branch1.1", 96, 3, 3}}},
          {.steps = {{"branch2.0", 64, 1, 1}, {"branch2.1", 96, 3, 3}, {"branch2.2", 96, 3, 3}}},
          {.steps = {{"branch3.1", 96, 1, 1}}, .pool = BranchPool::kAverage}};
}

std::vector<Branch> ReductionA() {
  return {{.steps = {{"branch0", 384, 3, 3, 2, false}}},
          {.steps = {{"branch1.0", 192, 1, 1}, {"branch1.1", 224, 3, 3}, {"branch1.2", 256, 3, 3, 2, false}}},
          {.pool = BranchPool::kMaximum}};
}

std::vector<Branch> BlockB() {
  return {{.steps = {{"branch0", 384, 1, 1}}},
          {.steps = {{"branch1.0", 192, 1, 1}, {"branch1.1", 224, 1, 7}, {"branch1.2", 256, 7, 1}}},
          {.steps = {{"branch2.0", 192, 1, 1},
                     {"branch2.1", 192, 7, 1},
                     {"branch2.2", 224, 1, 7},
                     {"branch2.3", 224, 7, 1},
                     {"branch2.4", 256, 1, 7}}},
          {.steps = {{"branch3.1", 128, 1, 1}}, .pool = BranchPool::kAverage}};
}

std::vector<Branch> ReductionB() {
  return {{.steps = {{"branch0.0", 192, 1, 1}, {"branch0.1", 192, 3, 3, 2, false}}},
          {.steps = {{"branch1.0", 256, 1, 1},
                     {"branch1.1", 256, 1, 7},
                     {"branch1.2", 320, 7, 1},
                     {"branch1.3", 320, 3, 3, 2, false}}},
          {.pool = BranchPool::kMaximum}};
}

std::vector<Branch> BlockC() {
  return {{.steps = {{"branch0", 256, 1, 1}}},
          {.steps = {{"branch1_0", 384, 1, 1}}, .forks = {{"branch1_1a", 256, 1, 3}, {"branch1_1b", 256, 3, 1}}},
          {.steps = {{"branch2_0", 384, 1, 1}, {"branch2_1", 448, 3, 1}, {"branch2_2", 512, 1, 3}},
           .forks = {{"branch2_3a", 256, 1, 3}, {"branch2_3b", 256, 3, 1}}},
          {.steps = {{"branch3.1", 256, 1, 1}}, .pool = BranchPool::kAverage}};
}

std::vector<std::vector<Branch>> BlocksBehindStem() {
  std::vector<std::vector<Branch>> blocks = {
      {{.pool = BranchPool::kMaximum}, {.steps = {{"conv", 96, 3, 3, 2, false}}}},
      {{.steps = {{"branch0.0", 64, 1, 1}, {"branch0.1", 96, 3, 3, 1, false}}},
       {.steps = {{"branch1.0", 64, 1, 1},
                  {"branch1.1", 64, 1, 7},
                  {"branch1.2", 64, 7, 1},
                  {"branch1.3", 96, 3, 3, 1, false}}}},
      {{.steps = {{"conv", 192, 3, 3, 2, false}}}, {.pool = BranchPool::kMaximum}}};
  blocks.insert(blocks.end(), 4, BlockA());
  blocks.push_back(ReductionA());
  blocks.insert(blocks.end(), 7, BlockB());
  blocks.push_back(ReductionB());
  blocks.insert(blocks.end(), 3, BlockC());
  return blocks;
}

}  // namespace

TensorId InceptionV4(Builder& b, const Sizes& sizes) {
  auto [x, labels] = ImageInput(b, sizes);
  {
    auto features = b.Enter("features");
    x = Chain(b, x, {{"0", 32, 3, 3, 2, false}, {"1", 32, 3, 3, 1, false}, {"2", 64, 3, 3}});
    int index = 3;
    for (const std::vector<Branch>& block : BlocksBehindStem()) x = JoinBranches(b, std::to_string(index++), x, block);
  }
  x = op::Flatten(b, op::AdaptiveAvgPool2d(b, x, 1, 1), 1);
  return op::CrossEntropy(b, nn::Linear(b, "last_linear", x, sizes.classes), labels);
}

}  // namespace ebbtide::model::zoo
