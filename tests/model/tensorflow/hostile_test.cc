// Files that were damaged or made to do harm. Whatever comes of it, a graph or one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "graph/check.h"
#include "model/tensorflow/tensorflow.h"
#include "tests/model/tensorflow/graph_maker.h"

namespace ebbtide::model::tensorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

void ExpectGraphOrOneLine(const std::string& bytes) {
  const Result<TrainingGraph> graph = ParseModel("test.pb", bytes, BatchOf(2));
  if (graph) {
    EXPECT_TRUE(Check(*graph).has_value());
    return;
  }
  const std::string& message = graph.error().message;
  EXPECT_THAT(message, StartsWith("test.pb: "));
  EXPECT_THAT(message, Not(StartsWith("test.pb: the training graph")));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 1000u) << message;
}

TEST(TensorflowHostileTest, EveryLength) {
  for (const std::string& bytes : {SmallClassifier().Bytes(), SmallClassifier().SavedModel("x", "y:0")}) {
    for (std::size_t length = 0; length < bytes.size(); ++length) ExpectGraphOrOneLine(bytes.substr(0, length));
  }
}

TEST(TensorflowHostileTest, EveryByteChanged) {
  const std::string bytes = SmallClassifier().SavedModel("x", "y:0");
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    for (const int change : {1, 2, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[place] = static_cast<char>(damaged[place] ^ change);
      ExpectGraphOrOneLine(damaged);
    }
  }
}

TEST(TensorflowHostileTest, ManyBytesChanged) {
  const std::string bytes = SmallClassifier().Bytes();
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = bytes;
    for (int k = 0; k < 4; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    ExpectGraphOrOneLine(damaged);
  }
}

TEST(TensorflowHostileTest, OtherFiles) {
  EXPECT_EQ(ErrorOf(""), "test.pb: is empty: expected a TensorFlow graph");
  EXPECT_THAT(ErrorOf("{\"nodes\": []}"), StartsWith("test.pb: byte 0"));
  EXPECT_THAT(ErrorOf(std::string("\x08\x01", 2)), HasSubstr("expected a SavedModel with a graph"));
}

TEST(TensorflowHostileTest, NamesThatDoNotFit) {
  GraphMaker twice = SmallClassifier();
  twice.graph.mutable_node(1)->set_name("x");
  EXPECT_EQ(ErrorOf(twice.Bytes()), "test.pb: node \"x\": expected one of this name");
  GraphMaker nobody = SmallClassifier();
  nobody.graph.mutable_node(5)->set_input(0, "nobody");
  EXPECT_EQ(ErrorOf(nobody.Bytes()), "test.pb: node \"conv\" (Conv2D): reads \"nobody\", which no node makes");
  GraphMaker output = SmallClassifier();
  output.graph.mutable_node(6)->set_input(0, "conv:7");
  EXPECT_THAT(ErrorOf(output.Bytes()), HasSubstr("reads output 7 of node \"conv\" (Conv2D), which has 1"));
  GraphMaker number = SmallClassifier();
  number.graph.mutable_node(6)->set_input(0, "conv:-1");
  EXPECT_THAT(ErrorOf(number.Bytes()), HasSubstr("expected the number of an output"));
}

TEST(TensorflowHostileTest, Cycles) {
  GraphMaker maker = SmallClassifier();
  maker.graph.mutable_node(5)->set_input(0, "relu");
  EXPECT_THAT(ErrorOf(maker.Bytes()), HasSubstr("reads what depends on it"));
}

TEST(TensorflowHostileTest, AFunctionThatCallsItself) {
  GraphMaker maker;
  maker.Function("f", {"a"}, {"again:output:0"}).Node("PartitionedCall", "again", {"a"}).Function("f", "f");
  maker.nodes().Input("x", {2}).Node("PartitionedCall", "y", {"x"}).Function("f", "f");
  EXPECT_THAT(ErrorOf(maker.Bytes()), HasSubstr("expected at most 64 calls within calls"));
}

// 40 functions, each of which calls the next twice: 2^40 nodes.
TEST(TensorflowHostileTest, FunctionsThatMultiply) {
  GraphMaker maker;
  for (int i = 0; i < 40; ++i) {
    const std::string next = "f" + std::to_string(i + 1);
    maker.Function("f" + std::to_string(i), {"a"}, {"second:output:0"})
        .Node("PartitionedCall", "first", {"a"})
        .Function("f", next)
        .Node("PartitionedCall", "second", {"first:output:0"})
        .Function("f", next);
  }
  maker.Function("f40", {"a"}, {"t:y:0"}).Node("Tanh", "t", {"a"});
  maker.nodes().Input("x", {2}).Node("PartitionedCall", "y", {"x"}).Function("f", "f0");
  EXPECT_THAT(ErrorOf(maker.Bytes()), HasSubstr("expected at most 400000 nodes"));
}

TEST(TensorflowHostileTest, ALongChain) {
  GraphMaker maker;
  Nodes nodes = maker.nodes();
  // Backwards, so that whoever follows inputs goes all the way.
  for (int i = 20000; i > 0; --i) nodes.Node("Tanh", "n" + std::to_string(i), {"n" + std::to_string(i - 1)});
  nodes.Input("n0", {-1, 4});
  ModelOptions options = BatchOf(2);
  options.inference = true;
  EXPECT_EQ(Parse(maker.Bytes(), options).ops.size(), 20000u);
}

TEST(TensorflowHostileTest, SizesThatOverflow) {
  GraphMaker maker;
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  maker.nodes().Input("x", {kMost, kMost}).Node("Tanh", "y", {"x"});
  EXPECT_THAT(ErrorOf(maker.Bytes()), HasSubstr("expected at most 2^48 elements"));
  GraphMaker outer;
  outer.nodes()
      .Input("a", {-1, 1})
      .Integers("times", {1, 2147483647})
      .Node("Tile", "t", {"a", "times"})
      .Node("Tile", "u", {"t", "times"});
  EXPECT_THAT(ErrorOf(outer.Bytes()), HasSubstr("expected at most 2^48 elements"));
}

}  // namespace
}  // namespace ebbtide::model::tensorflow
