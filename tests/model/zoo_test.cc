// The list of built-in models and the sizes a user may choose.
#include "model/zoo/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <set>
#include <sstream>

#include "graph/summary.h"

namespace ebbtide::model::zoo {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& name, const ModelOptions& options) {
  Result<TrainingGraph> graph = Build(*FindMember(name), options);
  return graph ? "no error" : graph.error().message;
}

TEST(Zoo, HoldsEveryModelOnce) {
  std::multiset<std::string> names;
  for (const Family& family : Families()) {
    for (const Member& member : family.members) {
      names.insert(member.name);
      EXPECT_FALSE(member.description.empty()) << member.name;
      EXPECT_EQ(FindMember(member.name), &member);
    }
  }
  std::istringstream words(
      "alexnet vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 inception_v3 inception_v4 densenet121 "
      "densenet169 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet1_0 efficientnet_b0 xception "
      "regnet_x_400mf regnet_y_400mf "
      "convnext_tiny convnext_base unet lstm mlp bert-base bert-large gpt2 gpt2-medium gpt2-large gpt2-xl distilgpt2 "
      "gpt-neo-125m opt-125m opt-350m cerebras-gpt-111m t5-small t5-base llama-3.2-1b llama-3.2-3b qwen3-4b gemma-2-2b "
      "deepseek-r1-distill-qwen-1.5b");
  const std::multiset<std::string> expected(std::istream_iterator<std::string>(words), {});
  EXPECT_EQ(names, expected);
  EXPECT_EQ(FindMember("resnet51"), nullptr);
}

TEST(Zoo, SizesThatAModelDoesNotHaveAreRefused) {
  ModelOptions options;
  options.seq_len = 128;
  EXPECT_EQ(ErrorOf("resnet18", options), "resnet18: --seq-len does not apply to this model");
  options = {};
  options.image_size = 224;
  EXPECT_EQ(ErrorOf("gpt2", options), "gpt2: --image-size does not apply to this model");
  options = {};
  options.widths = {3, 4};
  EXPECT_EQ(ErrorOf("gpt2", options), "gpt2: --widths does not apply to this model");
}

TEST(Zoo, SizesMustBePositive) {
  ModelOptions options;
  options.batch_size = 0;
  EXPECT_EQ(ErrorOf("resnet18", options), "resnet18: --batch-size 0: expected a positive number");
  options = {};
  options.classes = -3;
  EXPECT_EQ(ErrorOf("resnet18", options), "resnet18: --classes -3: expected a positive number");
  options = {};
  options.widths = {4, 0, 2};
  EXPECT_EQ(ErrorOf("mlp", options), "mlp: --widths 0: expected a positive number");
}

// No size that fits an int64 may overflow on the way.
TEST(Zoo, SizesTooLargeForAnyMachineAreRefused) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t size : {kHuge, kHuge / 2, std::int64_t{1} << 31}) {
    for (const Family& family : Families()) {
      for (const Member& member : family.members) {
        ModelOptions options;
        options.batch_size = size;
        if (member.defaults.image > 0) options.image_size = size;
        if (member.defaults.seq_len > 0) options.seq_len = size;
        if (member.defaults.classes > 0) options.classes = size;
        if (!member.defaults.widths.empty()) options.widths = {size, size, size};
        EXPECT_THAT(ErrorOf(member.name, options), HasSubstr("expected")) << member.name;
      }
    }
  }
}

// 2^40 pixels of input pass, and are refused for what they would add up to: VGG alone needs 2^19 operations for each.
TEST(Zoo, StepsTooLargeForAnyMachineAreRefused) {
  ModelOptions options;
  options.batch_size = (std::int64_t{1} << 40) / (224 * 224);
  EXPECT_EQ(ErrorOf("vgg16", options),
            "vgg16: the step would take more than 2^60 bytes or operations; expected smaller sizes");
  options.batch_size += 1;
  EXPECT_THAT(ErrorOf("vgg16", options), HasSubstr("at most 2^40 places"));
}

TEST(Zoo, DescribesWhereAGraphComesFrom) {
  ModelOptions options;
  options.batch_size = 3;
  options.optimizer = "adam";
  const TrainingGraph graph = *Build(*FindMember("resnet18"), options);
  EXPECT_EQ(graph.name, "resnet18");
  EXPECT_EQ(graph.meta.at("source"), "built in");
  EXPECT_EQ(graph.meta.at("batch_size"), "3");
  EXPECT_EQ(graph.meta.at("optimizer"), "adam");
  EXPECT_EQ(graph.meta.at("device"), "cpu");
}

// 784 x 512 + 512, 512 x 512 + 512, 512 x 10 + 10; 2 operations per weight and image.
TEST(Zoo, MlpByDefault) {
  ModelOptions options;
  options.batch_size = 4;
  const Summary summary = Summarize(*Build(*FindMember("mlp"), options));
  EXPECT_EQ(summary.parameters, 401'920 + 262'656 + 5'130);
  EXPECT_EQ(summary.forward_flops(), 2 * 4 * (784 * 512 + 512 * 512 + 512 * 10));
}

}  // namespace
}  // namespace ebbtide::model::zoo
