// Symbolic sizes and what binds them; the loss that a file does not have; the parameters among its initializers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/summary.h"
#include "tests/model/onnx/onnx_model.h"

namespace ebbtide::model::onnx {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

Dims InputShape(const TrainingGraph& graph, const std::string& name) {
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name == name) return tensor.shape;
  }
  return {-1};
}

ModelOptions With(std::int64_t batch, std::optional<std::int64_t> tokens, std::optional<std::int64_t> pixels) {
  ModelOptions options = Batch(batch);
  options.seq_len = tokens;
  options.image_size = pixels;
  return options;
}

OnnxModel Words(const std::vector<DimSpec>& shape) {
  OnnxModel model;
  return model.Input("tokens", shape, kInt64Type)
      .Weight("words.weight", {9, 4})
      .Node("Gather", {"words.weight", "tokens"}, {"y"})
      .Output("y");
}

OnnxModel Images(const std::vector<DimSpec>& shape) {
  OnnxModel model;
  return model.Input("x", shape)
      .Weight("conv.weight", {4, 3, 3, 3})
      .Node("Conv", {"x", "conv.weight"}, {"y"})
      .Output("y");
}

TEST(InputsTest, TheFirstAxisIsTheBatch) {
  EXPECT_EQ(InputShape(ReadGood(Images({"anything", 3, 8, 8}), Batch(7)), "x"), (Dims{7, 3, 8, 8}));
  EXPECT_EQ(InputShape(ReadGood(Words({"batch", 6}), Batch(7)), "tokens"), (Dims{7, 6}));
}

TEST(InputsTest, TokensAndPixelsByTheirFlags) {
  EXPECT_EQ(InputShape(ReadGood(Words({"batch", "s"}), With(2, 5, {})), "tokens"), (Dims{2, 5}));
  EXPECT_EQ(InputShape(ReadGood(Images({"n", 3, "h", "w"}), With(2, {}, 10)), "x"), (Dims{2, 3, 10, 10}));
  EXPECT_EQ(ErrorOf(Words({"batch", "s"})),
            "test.onnx: input \"tokens\": axis 1 (\"s\") is symbolic: expected --seq-len");
  EXPECT_EQ(ErrorOf(Images({"n", 3, "h", "w"})),
            "test.onnx: input \"x\": axis 2 (\"h\") is symbolic: expected --image-size");
  EXPECT_EQ(ErrorOf(Images({"n", "c", 8, 8})), "test.onnx: input \"x\": axis 1 (\"c\"): expected a fixed size");
}

TEST(InputsTest, NamesTellBeforePlaces) {
  // Length first, as recurrent models have it.
  EXPECT_EQ(InputShape(ReadGood(Words({"seq_length", "batch_size"}), With(2, 5, {})), "tokens"), (Dims{5, 2}));
}

TEST(InputsTest, OneSymbolHasOneSize) {
  OnnxModel model = Words({"batch", "s"});
  model.Input("mask", {"batch", 1, "s", "s"});
  EXPECT_EQ(InputShape(ReadGood(model, With(2, 5, {})), "mask"), (Dims{2, 1, 5, 5}));
}

TEST(InputsTest, FixedSizesAreNotOverruled) {
  EXPECT_EQ(InputShape(ReadGood(Images({4, 3, 8, 8}), Batch(4)), "x"), (Dims{4, 3, 8, 8}));
  EXPECT_EQ(ErrorOf(Images({1, 3, 8, 8}), Batch(4)),
            "test.onnx: input \"x\": the batch is fixed to 1: expected --batch-size 1, or an export whose first axis "
            "is symbolic");
  EXPECT_EQ(
      ErrorOf(Words({"batch", 6}), With(2, 5, {})),
      "test.onnx: --seq-len 5: no axis of the inputs is symbolic and of that kind: expected an export that has one");
  EXPECT_EQ(InputShape(ReadGood(Words({"batch", 6}), With(2, 6, {})), "tokens"), (Dims{2, 6}));
  ModelOptions options = Batch(2);
  options.classes = 3;
  EXPECT_EQ(ErrorOf(Images({"n", 3, 8, 8}), options), "test.onnx: --classes does not apply to an ONNX file");
}

// ---- The loss

TEST(LossTest, ClassesWordsAndPixels) {
  EXPECT_EQ(InputShape(ReadGood(SmallClassifier(), Batch(3)), "labels"), (Dims{3}));
  // Scores [2, 6, 4] of words: flattened to [12, 4].
  const TrainingGraph words = ReadGood(Words({"batch", 6}));
  EXPECT_EQ(InputShape(words, "labels"), (Dims{2, 6}));
  EXPECT_EQ(ShapeOf(words, "_log_softmax"), (Dims{12, 4}));
  const TrainingGraph pixels = ReadGood(Images({"n", 3, 8, 8}));
  EXPECT_EQ(InputShape(pixels, "labels"), (Dims{2, 6, 6}));
  EXPECT_THAT(ForwardKinds(pixels), Contains("nll_loss2d_forward"));
}

TEST(LossTest, AnotherShapeIsAveraged) {
  OnnxModel model;
  model.Input("x", {"batch"}).Weight("gain", {1}).Weight("w", {2}).Node("PRelu", {"x", "gain"}, {"y"}).Output("y");
  EXPECT_THAT(ForwardKinds(ReadGood(model)), ElementsAre("_prelu_kernel", "mean"));
}

TEST(LossTest, AnAuxiliaryClassifierCounts) {
  OnnxModel model = SmallClassifier();
  model.Weight("aux.weight", {5, 4})
      .Node("Gemm", {"e", "aux.weight"}, {"aux"}, {{"transB", 1}})
      .Output("aux")
      .Output("e");
  const TrainingGraph graph = ReadGood(model);
  EXPECT_EQ(std::ranges::count(ForwardKinds(graph), "nll_loss_forward"), 2) << "not a third for the features";
  EXPECT_EQ(InputShape(graph, "labels1"), (Dims{2}));
}

TEST(LossTest, SomethingMustBeTrained) {
  EXPECT_EQ(ErrorOf(OnnxModel().Input("x", {2, 3}).Node("Relu", {"x"}, {"y"}).Output("y")),
            "test.onnx: no floating output depends on a parameter: expected a model that can be trained");
}

// ---- Parameters

TEST(ParametersTest, RunningStatisticsAreBuffers) {
  const TrainingGraph graph = ReadGood(SmallClassifier());
  EXPECT_THAT(ParameterNames(graph), ElementsAre("conv.weight", "bn.weight", "bn.bias", "fc.weight", "fc.bias"));
  EXPECT_EQ(Summarize(graph).parameters, 4 * 3 * 9 + 4 + 4 + 5 * 4 + 5);
}

TEST(ParametersTest, TiedWeightsCountOnce) {
  OnnxModel model;
  model.Input("tokens", {"batch", 6}, kInt64Type)
      .Weight("words.weight", {9, 4})
      .Node("Gather", {"words.weight", "tokens"}, {"h"});
  model.Node("Identity", {"words.weight"}, {"head"});
  model.Node("Transpose", {"head"}, {"t"}, {{"perm", std::vector<std::int64_t>{1, 0}}})
      .Node("MatMul", {"h", "t"}, {"y"})
      .Output("y");
  EXPECT_EQ(Summarize(ReadGood(model)).parameters, 9 * 4);
}

TEST(ParametersTest, InSumsAndProductsTheNameDecides) {
  OnnxModel model;
  model.Input("x", {"batch", 3, 8, 8}).Weight("conv.weight", {4, 3, 3, 3}).Weight("layer_scale", {4, 1, 1});
  model.Weight("onnx::Add_7", {4, 6, 6}).Number("two", 2);
  model.Node("Conv", {"x", "conv.weight"}, {"a"})
      .Node("Mul", {"a", "layer_scale"}, {"b"})
      .Node("Add", {"b", "onnx::Add_7"}, {"c"});
  model.Node("Mul", {"c", "two"}, {"y"}).Output("y");
  EXPECT_THAT(ParameterNames(ReadGood(model)), UnorderedElementsAre("conv.weight", "layer_scale"));
}

TEST(ParametersTest, FrequenciesThatMeetPositionsAreConstants) {
  // cos(position * frequency), as rotary embeddings have it, times what is learned.
  OnnxModel model;
  model.Input("x", {"batch", 3, 4}).Weight("proj", {4, 4}).Weight("rotary.inv_freq", {4}).Integers("axes", {1});
  model.Integer("zero", 0).Integer("three", 3).Integer("one", 1);
  model.Node("MatMul", {"x", "proj"}, {"h"})
      .Node("Range", {"zero", "three", "one"}, {"p"})
      .Node("Cast", {"p"}, {"f"}, {{"to", 1}});
  model.Node("Unsqueeze", {"f", "axes"}, {"g"})
      .Node("Mul", {"g", "rotary.inv_freq"}, {"angle"})
      .Node("Cos", {"angle"}, {"c"});
  model.Node("Mul", {"h", "c"}, {"y"}).Output("y");
  EXPECT_THAT(ParameterNames(ReadGood(model)), ElementsAre("proj"));
}

TEST(ParametersTest, ABiasOfZerosThatAnExporterMakesIsNone) {
  // Expand(0, Shape(weight)[0:1]): what a convolution without bias looks like unoptimised.
  OnnxModel model;
  model.Input("x", {"batch", 3, 8, 8}).Weight("conv.weight", {4, 3, 3, 3}).Number("nothing", 0);
  model.Node("Shape", {"conv.weight"}, {"s"}, {{"start", 0}, {"end", 1}}).Node("CastLike", {"nothing", "x"}, {"z"});
  model.Node("Expand", {"z", "s"}, {"bias"}).Node("Conv", {"x", "conv.weight", "bias"}, {"y"}).Output("y");
  const TrainingGraph graph = ReadGood(model);
  EXPECT_THAT(ForwardKinds(graph), Not(Contains("full")));
  EXPECT_EQ(Summarize(graph).parameters, 4 * 3 * 9);
}

TEST(ParametersTest, LookedUpPositionsOfTheFileAreBuffers) {
  OnnxModel model = Words({"batch", 6});
  model.message.mutable_graph()->clear_output();
  model.Weight("positions", {1, 6}, kInt64Type).Weight("places.weight", {6, 4});
  model.Node("Gather", {"places.weight", "positions"}, {"p"}).Node("Add", {"y", "p"}, {"z"}).Output("z");
  EXPECT_THAT(ParameterNames(ReadGood(model)), UnorderedElementsAre("words.weight", "places.weight"));
}

}  // namespace
}  // namespace ebbtide::model::onnx
