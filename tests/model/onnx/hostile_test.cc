// Files that were damaged: every byte changed, every length cut. Whatever comes of it, a graph or one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "graph/check.h"
#include "model/onnx/onnx.h"
#include "tests/model/onnx/onnx_model.h"

namespace ebbtide::model::onnx {
namespace {

// Shapes that are computed, a table that is looked up, a residual, a sequence: several kinds of nodes in a small file.
OnnxModel Varied() {
  OnnxModel model = SmallClassifier();
  model.message.mutable_graph()->clear_output();
  model.Input("tokens", {"batch", 4}, kInt64Type)
      .Weight("words.weight", {7, 5})
      .Integer("first", 0)
      .Integers("minus", {-1})
      .Integers("one", {1})
      .Integer("each", 1)
      .Number("half", 0.5)
      .Node("Gather", {"words.weight", "tokens"}, {"f"})
      .Node("Shape", {"f"}, {"s"})
      .Node("Gather", {"s", "first"}, {"n"})
      .Node("Unsqueeze", {"n", "one"}, {"n1"})
      .Node("Concat", {"n1", "minus"}, {"to"}, {{"axis", 0}})
      .Node("ReduceSum", {"f", "one"}, {"g"})
      .Node("Reshape", {"g", "to"}, {"h"})
      .Node("SplitToSequence", {"h", "each"}, {"parts"}, {{"axis", 1}})
      .Node("SequenceAt", {"parts", "first"}, {"part"})
      .Node("Mul", {"part", "half"}, {"i"})
      .Node("Add", {"y", "i"}, {"j"})
      .Node("Softmax", {"j"}, {"z"})
      .Output("z");
  // Unsqueeze of a number has the one new axis 0.
  model.message.mutable_graph()->mutable_node(9)->set_input(1, "zero");
  model.Integers("zero", {0});
  return model;
}

// True if a graph was made of it.
bool IsGraphOrOneLine(const std::string& bytes, const ModelOptions& options) {
  const Result<TrainingGraph> graph = ParseModel("test.onnx", bytes, options);
  if (graph) {
    EXPECT_TRUE(Check(*graph).has_value());
    return true;
  }
  const std::string& message = graph.error().message;
  EXPECT_TRUE(message.starts_with("test.onnx: ")) << message;
  EXPECT_FALSE(message.starts_with("test.onnx: the training graph: ")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 1000u) << message;
  return false;
}

TEST(HostileTest, TheWholeFileIsRead) { EXPECT_EQ(ErrorOf(Varied()), "no error"); }

TEST(HostileTest, EveryLength) {
  const std::string bytes = Varied().Bytes();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(IsGraphOrOneLine(bytes.substr(0, length), Batch(2))) << length;
  }
}

TEST(HostileTest, EveryByteChanged) {
  const std::string bytes = Varied().Bytes();
  ModelOptions options = Batch(2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int change : {0x01, 0x02, 0x08, 0x40, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ change);
      options.assume_elementwise = change == 0x02;
      IsGraphOrOneLine(changed, options);
    }
  }
}

TEST(HostileTest, PiecesThatChangePlaces) {
  const std::string bytes = Varied().Bytes();
  std::minstd_rand random(7);
  auto below = [&](std::size_t bound) { return random() % bound; };
  for (int i = 0; i < 2000; ++i) {
    std::string changed = bytes;
    const std::size_t length = 1 + below(40), from = below(bytes.size() - length), to = below(bytes.size() - length);
    if (i % 3 == 0) changed.erase(from, length);
    if (i % 3 == 1) changed.insert(to, bytes, from, length);
    if (i % 3 == 2) changed.replace(to, length, bytes, from, length);
    IsGraphOrOneLine(changed, Batch(2));
  }
}

TEST(HostileTest, SizesAtTheEdges) {
  // Every number of every initializer's shape and contents, and of every attribute, set to what overflows or is
  // nothing.
  const OnnxModel model = Varied();
  for (std::int64_t edge : std::array<std::int64_t, 7>{0, -1, INT64_MIN, INT64_MAX, std::int64_t{1} << 31,
                                                       std::int64_t{1} << 47, std::int64_t{1} << 62}) {
    for (int i = 0; i < model.message.graph().initializer_size(); ++i) {
      OnnxModel changed = model;
      auto& tensor = *changed.message.mutable_graph()->mutable_initializer(i);
      if (tensor.dims_size() > 0) tensor.set_dims(0, edge);
      IsGraphOrOneLine(changed.Bytes(), Batch(2));
      if (tensor.int64_data_size() == 0) continue;
      if (tensor.dims_size() > 0) tensor.set_dims(0, 1);
      tensor.set_int64_data(0, edge);
      IsGraphOrOneLine(changed.Bytes(), Batch(2));
    }
    ModelOptions options = Batch(edge);
    IsGraphOrOneLine(model.Bytes(), options);
  }
}

TEST(HostileTest, SubgraphsAreNotFollowed) {
  OnnxModel model;
  model.Input("x", {2}).Node("Loop", {"x"}, {"y"}).Output("y");
  EXPECT_EQ(
      ErrorOf(model),
      "test.onnx: node 0 (op Loop): operator is not supported; --assume-elementwise goes on as if it kept the shape of "
      "its first input");
}

TEST(HostileTest, GrowthByRepetitionIsBounded) {
  // Each node doubles an axis: 2^60 elements after 60 of them, were it allowed.
  OnnxModel model;
  model.Input("x0", {1, 2}).Weight("w", {2}).Node("Mul", {"x0", "w"}, {"x1"});
  for (int i = 1; i < 60; ++i) {
    const std::string from = "x" + std::to_string(i), to = "x" + std::to_string(i + 1);
    model.Node("Concat", {from, from}, {to}, {{"axis", 1}});
  }
  model.Output("x60");
  EXPECT_THAT(ErrorOf(model, Batch(1)),
              ::testing::StartsWith("test.onnx: node 48 (op Concat): gives [1, 562949953421312]"));
}

TEST(HostileTest, FoldingIsBounded) {
  // A thousand nodes of 4096 known integers each, all kept: folding stops, the file is read all the same.
  OnnxModel model;
  model.Input("x", {2, 3}).Weight("w", {3, 3}).Integer("zero", 0).Integer("many", 4096).Integer("step", 1);
  model.Node("Range", {"zero", "many", "step"}, {"r0"});
  for (int i = 0; i < 5000; ++i) model.Node("Add", {"r" + std::to_string(i), "r0"}, {"r" + std::to_string(i + 1)});
  model.Node("MatMul", {"x", "w"}, {"y"}).Output("y").Output("r5000");
  EXPECT_TRUE(IsGraphOrOneLine(model.Bytes(), Batch(2)));
}

}  // namespace
}  // namespace ebbtide::model::onnx
