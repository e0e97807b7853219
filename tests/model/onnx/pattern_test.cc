// What exporters spell out becomes one op where PyTorch has one kernel for it, and stays apart where it has not.
#include "model/onnx/patterns/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/summary.h"
#include "tests/model/onnx/onnx_model.h"

namespace ebbtide::model::onnx {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

// x W over [batch, 6, 4], whose result "h" is what the patterns are written over.
OnnxModel Projected(std::int64_t opset = 17) {
  OnnxModel model(opset);
  model.Input("x", {"batch", 6, 4}).Weight("proj", {4, 4}).Node("MatMul", {"x", "proj"}, {"h"});
  return model;
}

// Forward ops behind the projection (view, mm, view) and before the loss (view, view, _log_softmax, nll_loss).
std::vector<std::string> Between(const TrainingGraph& graph) {
  std::vector<std::string> kinds = ForwardKinds(graph);
  EXPECT_GT(kinds.size(), 7u);
  return {kinds.begin() + 3, kinds.end() - 4};
}

TEST(PatternTest, GeluByErf) {
  OnnxModel model = Projected();
  model.Number("root", 1.4142135f).Number("one", 1).Number("half", 0.5);
  model.Node("Div", {"h", "root"}, {"a"}).Node("Erf", {"a"}, {"b"}).Node("Add", {"b", "one"}, {"c"});
  OnnxModel other_order = model;
  model.Node("Mul", {"h", "c"}, {"d"}).Node("Mul", {"d", "half"}, {"y"}).Output("y");
  EXPECT_THAT(Between(ReadGood(model)), ElementsAre("gelu"));
  other_order.Node("Mul", {"half", "h"}, {"d"}).Node("Mul", {"c", "d"}, {"y"}).Output("y");
  EXPECT_THAT(Between(ReadGood(other_order)), ElementsAre("gelu"));
}

TEST(PatternTest, AlmostGeluStays) {
  OnnxModel model = Projected();
  model.Number("root", 1.5f).Number("one", 1).Number("half", 0.5);  // not the root of two
  model.Node("Div", {"h", "root"}, {"a"}).Node("Erf", {"a"}, {"b"}).Node("Add", {"b", "one"}, {"c"});
  model.Node("Mul", {"h", "c"}, {"d"}).Node("Mul", {"d", "half"}, {"y"}).Output("y");
  EXPECT_THAT(Between(ReadGood(model)), ElementsAre("div", "erf", "add", "mul", "mul"));
}

// torch's own tanh form cubes by multiplying; transformers' NewGELU calls pow and runs op by op.
OnnxModel TanhGelu(bool with_pow) {
  OnnxModel model = Projected();
  model.Number("beta", 0.7978845608f)
      .Number("kappa", 0.044715f)
      .Number("one", 1)
      .Number("half", 0.5)
      .Number("three", 3);
  if (with_pow) model.Node("Pow", {"h", "three"}, {"cube"});
  if (!with_pow) model.Node("Mul", {"h", "h"}, {"square"}).Node("Mul", {"h", "square"}, {"cube"});
  model.Node("Mul", {"kappa", "cube"}, {"a"}).Node("Add", {"h", "a"}, {"b"}).Node("Mul", {"beta", "b"}, {"c"});
  model.Node("Tanh", {"c"}, {"d"}).Node("Add", {"one", "d"}, {"e"}).Node("Mul", {"h", "e"}, {"f"});
  return model.Node("Mul", {"half", "f"}, {"y"}).Output("y");
}

TEST(PatternTest, GeluByTanh) {
  EXPECT_THAT(Between(ReadGood(TanhGelu(false))), ElementsAre("gelu"));
  EXPECT_THAT(Between(ReadGood(TanhGelu(true))), ElementsAre("pow", "mul", "add", "mul", "tanh", "add", "mul", "mul"));
}

TEST(PatternTest, GatedActivations) {
  EXPECT_THAT(Between(ReadGood(Projected().Node("Sigmoid", {"h"}, {"g"}).Node("Mul", {"h", "g"}, {"y"}).Output("y"))),
              ElementsAre("silu"));
  EXPECT_THAT(
      Between(ReadGood(Projected().Node("HardSigmoid", {"h"}, {"g"}).Node("Mul", {"g", "h"}, {"y"}).Output("y"))),
      ElementsAre("hardswish"));
  EXPECT_THAT(Between(ReadGood(Projected()
                                   .Node("Softplus", {"h"}, {"s"})
                                   .Node("Tanh", {"s"}, {"g"})
                                   .Node("Mul", {"h", "g"}, {"y"})
                                   .Output("y"))),
              ElementsAre("mish"));
  // A gate that something else reads, too, has to be there.
  EXPECT_THAT(Between(ReadGood(Projected()
                                   .Node("Sigmoid", {"h"}, {"g"})
                                   .Node("Mul", {"h", "g"}, {"p"})
                                   .Node("Add", {"p", "g"}, {"y"})
                                   .Output("y"))),
              ElementsAre("sigmoid", "mul", "add"));
}

TEST(PatternTest, LayerNormOfBeforeOpset17) {
  OnnxModel model = Projected(11);
  model.Weight("ln.weight", {4}).Weight("ln.bias", {4}).Number("two", 2).Number("epsilon", 1e-5f);
  const std::vector<Attribute> last = {{"axes", std::vector<std::int64_t>{-1}}};
  model.Node("ReduceMean", {"h"}, {"m"}, last).Node("Sub", {"h", "m"}, {"d"}).Node("Pow", {"d", "two"}, {"q"});
  model.Node("ReduceMean", {"q"}, {"v"}, last).Node("Add", {"v", "epsilon"}, {"e"}).Node("Sqrt", {"e"}, {"s"});
  model.Node("Div", {"d", "s"}, {"n"})
      .Node("Mul", {"n", "ln.weight"}, {"w"})
      .Node("Add", {"w", "ln.bias"}, {"y"})
      .Output("y");
  const TrainingGraph graph = ReadGood(model);
  EXPECT_THAT(Between(graph), ElementsAre("native_layer_norm"));
  EXPECT_THAT(ParameterNames(graph), ElementsAre("proj", "ln.weight", "ln.bias"));
}

TEST(PatternTest, LinearLayers) {
  OnnxModel model;
  model.Input("x", {"batch", 6, 4}).Weight("fc.weight", {5, 4}).Weight("fc.bias", {5});
  model.Node("Transpose", {"fc.weight"}, {"t"}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  model.Node("MatMul", {"x", "t"}, {"p"}).Node("Add", {"fc.bias", "p"}, {"y"}).Output("y");
  // As nn.Linear over three axes: rows, the weight turned, one product with the bias, back.
  const TrainingGraph graph = ReadGood(model);
  const std::vector<std::string> kinds = ForwardKinds(graph);
  ASSERT_GT(kinds.size(), 4u);
  EXPECT_THAT(std::vector(kinds.begin(), kinds.begin() + 4), ElementsAre("view", "t", "addmm", "view"));
  EXPECT_EQ(Summarize(graph).parameters, 5 * 4 + 5);
}

TEST(PatternTest, LinearLayersWithATurnedWeight) {
  OnnxModel model;
  model.Input("x", {"batch", 6, 4}).Weight("onnx::MatMul_12", {4, 5}).Weight("fc.bias", {5});
  model.Node("MatMul", {"x", "onnx::MatMul_12"}, {"p"}).Node("Add", {"p", "fc.bias"}, {"y"}).Output("y");
  const TrainingGraph graph = ReadGood(model);
  EXPECT_THAT(ForwardKinds(graph), Contains("addmm"));
  EXPECT_EQ(Summarize(graph).parameters, 5 * 4 + 5);
}

// Attention over one projection as query, key and value: [batch, 6, 4] as 2 heads of width 2.
OnnxModel WithAttention(bool scaled_operands, float dropout, bool masked) {
  OnnxModel model = Projected();
  model.Integers("heads", {0, 6, 2, 2}).Number("scale", 0.84f).Number("ratio", dropout).Weight("mask", {1, 1, 6, 6});
  model.Node("Reshape", {"h", "heads"}, {"r"});
  model.Node("Transpose", {"r"}, {"q"}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
  model.Node("Transpose", {"r"}, {"k"}, {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}});
  if (scaled_operands) {
    model.Node("Mul", {"q", "scale"}, {"qs"}).Node("Mul", {"k", "scale"}, {"ks"}).Node("MatMul", {"qs", "ks"}, {"s"});
  } else {
    model.Node("MatMul", {"q", "k"}, {"p"}).Node("Mul", {"p", "scale"}, {"s"});
  }
  if (masked) model.Node("Add", {"s", "mask"}, {"sm"});
  model.Node("Softmax", {masked ? "sm" : "s"}, {"w"}, {{"axis", -1}});
  if (dropout > 0) model.Node("Dropout", {"w", "ratio"}, {"wd"});
  return model.Node("MatMul", {dropout > 0 ? "wd" : "w", "q"}, {"y"}).Output("y");
}

TEST(PatternTest, AttentionIsOneKernel) {
  const TrainingGraph graph = ReadGood(WithAttention(true, 0, false));
  EXPECT_THAT(ForwardKinds(graph), Contains("_scaled_dot_product_flash_attention_for_cpu"));
  EXPECT_THAT(ForwardKinds(graph), Not(Contains("_softmax")));
  const TrainingGraph masked = ReadGood(WithAttention(true, 0, true));
  EXPECT_THAT(ForwardKinds(masked), Contains("_scaled_dot_product_flash_attention_for_cpu"));
}

TEST(PatternTest, AttentionWithDropoutIsWhatTorchRunsOnTheCpu) {
  // scores [2, 2, 6, 6]: the softmax's result, the noise and their product are all saved, 4 bytes each.
  const TrainingGraph graph = ReadGood(WithAttention(true, 0.1f, false));
  EXPECT_THAT(ForwardKinds(graph), Contains("_safe_softmax"));
  ModelOptions cuda = Batch(2);
  cuda.device = Device::kCuda;
  EXPECT_THAT(ForwardKinds(ReadGood(WithAttention(true, 0.1f, false), cuda)),
              Contains("_scaled_dot_product_efficient_attention"));
}

TEST(PatternTest, AttentionByHandStays) {
  const TrainingGraph graph = ReadGood(WithAttention(false, 0, true));
  EXPECT_THAT(ForwardKinds(graph), Contains("_softmax"));
  EXPECT_THAT(ForwardKinds(graph), Not(Contains("_scaled_dot_product_flash_attention_for_cpu")));
}

TEST(PatternTest, GroupNormOfBeforeOpset18) {
  OnnxModel model;
  model.Input("x", {"batch", 3, 8, 8})
      .Weight("conv.weight", {4, 3, 1, 1})
      .Weight("gn.weight", {4})
      .Weight("gn.bias", {4});
  model.Integers("grouped", {0, 2, -1}).Integers("axes", {1, 2}).Numbers("ones", {1, 1}).Numbers("zeros", {0, 0});
  model.Node("Conv", {"x", "conv.weight"}, {"h"}).Node("Reshape", {"h", "grouped"}, {"g"});
  model.Node("InstanceNormalization", {"g", "ones", "zeros"}, {"n"})
      .Node("Shape", {"h"}, {"s"})
      .Node("Reshape", {"n", "s"}, {"b"});
  model.Node("Unsqueeze", {"gn.weight", "axes"}, {"w"}).Node("Unsqueeze", {"gn.bias", "axes"}, {"v"});
  model.Node("Mul", {"b", "w"}, {"p"}).Node("Add", {"p", "v"}, {"y"}).Output("y");
  const TrainingGraph graph = ReadGood(model);
  EXPECT_THAT(ForwardKinds(graph),
              ElementsAre("convolution", "native_group_norm", "_log_softmax", "nll_loss2d_forward"));
  EXPECT_EQ(Summarize(graph).parameters, 4 * 3 + 4 + 4);
}

TEST(PatternTest, LstmWeightsAreTheLayersOwn) {
  // Gates of [4 hidden, width] in torch's order i, f, g, o are cut and joined as i, o, f, g.
  OnnxModel model;
  model.Input("x", {5, "batch", 3}).Weight("lstm.weight_ih_l0", {8, 3}).Weight("lstm.weight_hh_l0", {8, 2});
  model.Weight("lstm.bias_ih_l0", {8}).Weight("lstm.bias_hh_l0", {8}).Integers("zero", {0}).Integers("one", {1});
  for (int i = 0; i <= 4; ++i) model.Integers("at" + std::to_string(2 * i), {2 * i});
  auto turned = [&](const std::string& weight) {
    for (int gate : {0, 3, 1, 2}) {
      model.Node("Slice", {weight, "at" + std::to_string(2 * gate), "at" + std::to_string(2 * gate + 2), "zero"},
                 {weight + std::to_string(gate)});
    }
    model.Node("Concat", {weight + "0", weight + "3", weight + "1", weight + "2"}, {weight + "'"}, {{"axis", 0}});
    return weight + "'";
  };
  model.Node("Unsqueeze", {turned("lstm.weight_ih_l0"), "zero"}, {"W"});
  model.Node("Unsqueeze", {turned("lstm.weight_hh_l0"), "zero"}, {"R"});
  model.Node("Concat", {turned("lstm.bias_ih_l0"), turned("lstm.bias_hh_l0")}, {"b"}, {{"axis", 0}});
  model.Node("Unsqueeze", {"b", "zero"}, {"B"}).Node("LSTM", {"x", "W", "R", "B"}, {"h"}, {{"hidden_size", 2}});
  model.Node("Squeeze", {"h", "one"}, {"y"}).Output("y");
  const TrainingGraph graph = ReadGood(model);
  EXPECT_EQ(Summarize(graph).parameters, 8 * 3 + 8 * 2 + 8 + 8);
  EXPECT_THAT(ForwardKinds(graph), Not(Contains("cat")));
  EXPECT_EQ(ShapeOf(graph, "mkldnn_rnn_layer"), (Dims{5, 2, 2}));
}

}  // namespace
}  // namespace ebbtide::model::onnx
