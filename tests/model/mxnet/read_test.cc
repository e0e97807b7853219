// Symbols of MXNet: what is read, what is refused, and files that were damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/check.h"
#include "graph/summary.h"
#include "model/mxnet/gradient.h"
#include "model/mxnet/mxnet.h"
#include "model/mxnet/symbol.h"

namespace ebbtide::model::mxnet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two layers, a branch that is joined by a sum and one by a concatenation, and every way to spell attributes.
constexpr std::string_view kSmall = R"json({"nodes": [
{"op": "null", "name": "data", "inputs": []},
{"op": "null", "name": "c_weight", "attrs": {"__shape__": "(4, 0, 3, 3)"}, "inputs": []},
{"op": "Convolution", "name": "c", "attrs": {"kernel": "(3, 3)", "pad": "[1,1]", "num_filter": "4", "no_bias": "True"},
 "inputs": [[0, 0, 0], [1, 0, 0]]},
{"op": "null", "name": "n_gamma", "inputs": []},
{"op": "null", "name": "n_beta", "inputs": []},
{"op": "null", "name": "n_mean", "inputs": []},
{"op": "null", "name": "n_var", "inputs": []},
{"op": "BatchNorm", "name": "n", "attrs": {"eps": "1e-5"}, "inputs": [[2, 0], [3, 0], [4, 0], [5, 0], [6, 0]]},
{"op": "Activation", "name": "r", "attrs": {"act_type": "relu"}, "inputs": [[7, 0, 0]]},
{"op": "elemwise_add", "name": "s", "inputs": [[8, 0, 0], [2, 0, 0]]},
{"op": "Pooling", "name": "p", "attrs": {"kernel": "(2, 2)", "stride": "(2, 2)", "pool_type": "max"}, "inputs": [[9, 0, 0]]},
{"op": "Concat", "name": "j", "attrs": {"dim": "1", "num_args": "2"}, "inputs": [[10, 0, 0], [10, 0, 0]]},
{"op": "Flatten", "name": "f", "inputs": [[11, 0, 0]]},
{"op": "Dropout", "name": "d", "attrs": {"p": "0.5"}, "inputs": [[12, 0, 0]]},
{"op": "null", "name": "l_weight", "inputs": []},
{"op": "null", "name": "l_bias", "inputs": []},
{"op": "FullyConnected", "name": "l", "attrs": {"num_hidden": "10"}, "inputs": [[13, 0, 0], [14, 0, 0], [15, 0, 0]]},
{"op": "null", "name": "softmax_label", "inputs": []},
{"op": "SoftmaxOutput", "name": "softmax", "inputs": [[16, 0, 0], [17, 0, 0]]}],
"arg_nodes": [0, 1, 3, 4, 5, 6, 14, 15, 17], "node_row_ptr": [0, 1], "heads": [[18, 0, 0]],
"attrs": {"mxnet_version": ["int", 10901]}})json";

ModelOptions Small() {
  ModelOptions options;
  options.batch_size = 2;
  options.image_size = 8;
  return options;
}

std::string ErrorOf(std::string text) {
  const Result<TrainingGraph> graph = ParseModel("a-symbol.json", text, Small());
  return graph ? "no error" : graph.error().message;
}

std::string Changed(std::string_view from, std::string_view to) {
  std::string text(kSmall);
  return text.replace(text.find(from), from.size(), to);
}

TEST(MxnetReadTest, ShapesFollowFromTheData) {
  const Result<TrainingGraph> graph = ParseModel("a-symbol.json", kSmall, Small());
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->name, "a");
  // Convolution 4x3x3x3, two of 4; 2 x 4 channels of 4x4 pixels to 10 classes and their bias.
  EXPECT_EQ(Summarize(*graph).parameters, 4 * 3 * 9 + 2 * 4 + 10 * 8 * 16 + 10);
}

TEST(MxnetReadTest, TheGradientRunsBackwardsAndSumsWhatMeets) {
  const Result<TrainingGraph> graph = ParseModel("a-symbol.json", kSmall, Small());
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  std::vector<std::string> backward;
  for (const Op& op : graph->ops) {
    if (op.phase == Phase::kBackward) backward.push_back(op.schema.substr(7));
  }
  // Both gradients of the concatenation are of the pooling, those of batch norm and sum of the convolution. A pooling
  // has a second result, whose gradient nobody makes.
  EXPECT_THAT(backward,
              ElementsAre("_backward_SoftmaxOutput", "_backward_FullyConnected", "_backward_Dropout", "_backward_copy",
                          "_backward_Concat", "add_n", "_zeros_without_dtype", "_backward_Pooling",
                          "_backward_Activation", "_backward_BatchNorm", "add_n", "_backward_Convolution"));
}

TEST(MxnetReadTest, InferenceHasNoGradient) {
  ModelOptions options = Small();
  options.inference = true;
  const Result<TrainingGraph> graph = ParseModel("a-symbol.json", kSmall, options);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->ops.size(), 10u);
}

TEST(MxnetReadTest, MistakesAreNamed) {
  EXPECT_EQ(
      ErrorOf(Changed("\"Concat\"", "\"Concrete\"")),
      "a-symbol.json: node 11 (\"Concrete j\"): is an operator that is not known (docs/mxnet.md lists those that are)");
  EXPECT_EQ(ErrorOf(Changed("\"(3, 3)\", \"pad\"", "\"(3, x)\", \"pad\"")),
            "a-symbol.json: node 2 (\"Convolution c\"): attribute kernel: expected at most 8 whole numbers in "
            "brackets, found \"(3, x)\"");
  EXPECT_EQ(ErrorOf(Changed("(4, 0, 3, 3)", "(4, 3, 5, 5)")),
            "a-symbol.json: node 2 (\"Convolution c\"): input 1: expected (4, 3, 3, 3), found (4, 3, 5, 5)");
  EXPECT_THAT(ErrorOf(Changed("[[2, 0], [3, 0]", "[[99, 0], [3, 0]")),
              HasSubstr("expected a node before this one (below 7), found 99"));
  EXPECT_THAT(ErrorOf(Changed("[[18, 0, 0]]", "[[18, 7, 0]]")), HasSubstr("heads: expected an output of node 18"));
  EXPECT_THAT(ErrorOf(Changed("\"num_hidden\": \"10\"", "\"num_hidden\": \"-1\"")),
              HasSubstr("expected sizes of at least 1"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("nodes"));
  EXPECT_THAT(ErrorOf(""), testing::StartsWith("a-symbol.json: "));
}

TEST(MxnetReadTest, OutputsAreBounded) {
  const std::string text = R"json({"nodes": [
{"op": "null", "name": "x", "attrs": {"__shape__": "(1, 900000000)"}, "inputs": []},
{"op": "SliceChannel", "name": "s", "attrs": {"num_outputs": "900000000"}, "inputs": [[0, 0, 0]]}],
"heads": [[1, 0, 0]]})json";
  EXPECT_THAT(ErrorOf(text), HasSubstr("attribute num_outputs"));
}

TEST(MxnetReadTest, SizesThatOverflowAreRefused) {
  EXPECT_THAT(ErrorOf(Changed("(4, 0, 3, 3)", "(999999999, 999999999, 999999999, 999999999)")), HasSubstr("elements"));
}

// True if a graph was made of it.
bool IsGraphOrOneLine(const std::string& text) {
  const Result<TrainingGraph> graph = ParseModel("a-symbol.json", text, Small());
  if (graph) {
    EXPECT_TRUE(Check(*graph).has_value());
    return true;
  }
  const std::string& message = graph.error().message;
  EXPECT_TRUE(message.starts_with("a-symbol.json: ")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 1000u) << message;
  return false;
}

TEST(MxnetHostileTest, EveryLength) {
  for (std::size_t length = 0; length < kSmall.size(); ++length) {
    EXPECT_FALSE(IsGraphOrOneLine(std::string(kSmall.substr(0, length)))) << length;
  }
}

TEST(MxnetHostileTest, EveryByteChanged) {
  for (std::size_t i = 0; i < kSmall.size(); ++i) {
    for (const char change : {'\x01', '\x02', '\x10', '\x40', '\x7f'}) {
      std::string text(kSmall);
      text[i] = static_cast<char>(text[i] ^ change);
      IsGraphOrOneLine(text);
    }
  }
}

TEST(MxnetHostileTest, EveryNumberChanged) {
  for (std::size_t i = 0; i < kSmall.size(); ++i) {
    if (kSmall[i] < '0' || kSmall[i] > '9') continue;
    for (const char* number : {"0", "-1", "7", "999999999", "99999999999999999999", "None"}) {
      IsGraphOrOneLine(std::string(kSmall.substr(0, i)) + number + std::string(kSmall.substr(i + 1)));
    }
  }
}

}  // namespace
}  // namespace ebbtide::model::mxnet
