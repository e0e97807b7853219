// A step at any batch from two: built-in models, whose graphs at every batch are known, and what cannot be put on a
// line.
#include "model/rebatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model.h"

namespace ebbtide::model {
namespace {

using ::testing::HasSubstr;

TrainingGraph At(const std::string& model, std::int64_t batch, const std::string& optimizer = "adam") {
  ModelOptions options;
  options.batch_size = batch;
  options.optimizer = optimizer;
  options.device = Device::kCuda;
  Result<TrainingGraph> graph = LoadModel(model, options);
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return *std::move(graph);
}

TEST(RebatchTest, BuiltInModelsLieOnTheirLine) {
  for (const char* model : {"mlp", "resnet18", "densenet121", "bert-base", "gpt2"}) {
    const auto any = AnyBatch::Make(At(model, 3), At(model, 8));
    ASSERT_TRUE(any.has_value()) << model << ": " << any.error().message;
    EXPECT_EQ(any->first_batch(), 3);
    EXPECT_EQ(any->second_batch(), 8);
    for (const std::int64_t batch : {2, 50}) {
      const Status confirmed = any->Confirm(At(model, batch));
      EXPECT_TRUE(confirmed.has_value()) << model << ": " << confirmed.error().message;
      EXPECT_EQ(*any->At(batch), At(model, batch)) << model;
    }
  }
}

TEST(RebatchTest, OtherStepsAreRefused) {
  const auto optimizers = AnyBatch::Make(At("mlp", 3), At("mlp", 8, "sgd"));
  ASSERT_FALSE(optimizers.has_value());
  EXPECT_THAT(optimizers.error().message, HasSubstr("not the same at both batches"));
  const auto equal = AnyBatch::Make(At("mlp", 3), At("mlp", 3));
  ASSERT_FALSE(equal.has_value());
  EXPECT_THAT(equal.error().message, HasSubstr("all inputs have the same sizes"));
}

TEST(RebatchTest, SizesOffTheLineAreNamed) {
  TrainingGraph second = At("mlp", 8);
  second.ops[1].flops += 1;
  const auto uneven = AnyBatch::Make(At("mlp", 3), second);
  ASSERT_FALSE(uneven.has_value());
  EXPECT_THAT(uneven.error().message, HasSubstr("ops[1]"));
  EXPECT_THAT(uneven.error().message, HasSubstr("expected a multiple of 5"));

  TrainingGraph third = At("mlp", 20);
  third.ops[1].flops += 1;
  const Status off = AnyBatch::Make(At("mlp", 3), At("mlp", 8))->Confirm(third);
  ASSERT_FALSE(off.has_value());
  EXPECT_THAT(off.error().message, HasSubstr("ops[1]"));
  EXPECT_THAT(off.error().message, HasSubstr("at batch 20 it is not on the line through batches 3 and 8"));
}

TEST(RebatchTest, BatchesBeyondTheLineAreErrors) {
  const auto any = AnyBatch::Make(At("mlp", 3), At("mlp", 8));
  EXPECT_FALSE(any->At(0).has_value());
  EXPECT_FALSE(any->At(std::int64_t{1} << 62).has_value());
  EXPECT_TRUE(any->At(std::int64_t{1} << 24).has_value());
}

}  // namespace
}  // namespace ebbtide::model
