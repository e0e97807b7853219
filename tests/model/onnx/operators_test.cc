// Every operator once: the shape it gives by ONNX's definition, its gradient, and a graph that passes Check on both
// devices. Then, operator by operator, what is refused and how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "graph/check.h"
#include "model/onnx/inputs.h"
#include "model/onnx/lower.h"
#include "model/onnx/onnx.h"
#include "model/onnx/patterns/pattern.h"
#include "model/update_rules.h"
#include "tests/model/onnx/onnx_model.h"

namespace ebbtide::model::onnx {
namespace {

using ::testing::HasSubstr;

using Int64s = std::vector<std::int64_t>;

struct Operand {
  enum class Kind { kData, kTokens, kFlags, kWeight, kIntegers, kInteger, kNumbers, kNumber, kNone } kind;
  Dims shape = {};
  std::vector<std::int64_t> integers = {};
  std::vector<float> numbers = {};
};

Operand Data(Dims shape) { return {Operand::Kind::kData, shape}; }      // floating, with a gradient
Operand Tokens(Dims shape) { return {Operand::Kind::kTokens, shape}; }  // integers that are not known
Operand Flags(Dims shape) { return {Operand::Kind::kFlags, shape}; }
Operand Weight(Dims shape) { return {Operand::Kind::kWeight, shape}; }
Operand Ints(Int64s values) { return {Operand::Kind::kIntegers, {}, values}; }
Operand Int(std::int64_t value) { return {Operand::Kind::kInteger, {}, {value}}; }
Operand Numbers(std::vector<float> values) { return {Operand::Kind::kNumbers, {}, {}, values}; }
Operand Number(float value) { return {Operand::Kind::kNumber, {}, {}, {value}}; }
Operand None() { return {Operand::Kind::kNone}; }

struct Example {
  std::string op;
  std::vector<Operand> operands;
  Dims shape;  // of the first output
  std::vector<Attribute> attributes = {};
  std::int64_t opset = 21;
  int outputs = 1;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.op; }

// Data is an input times a parameter, so that a gradient has somewhere to go.
OnnxModel ModelOf(const Example& example) {
  OnnxModel model(example.opset);
  std::vector<std::string> inputs;
  model.Input("anchor.x", {2, 3}).Weight("anchor.gain", {3}).Node("Mul", {"anchor.x", "anchor.gain"}, {"trained"});
  for (std::size_t i = 0; i < example.operands.size(); ++i) {
    const Operand& operand = example.operands[i];
    const std::string name = "operand" + std::to_string(i);
    std::vector<DimSpec> shape(operand.shape.begin(), operand.shape.end());
    inputs.push_back(name);
    switch (operand.kind) {
      case Operand::Kind::kData:
        model.Input(name + ".x", shape).Weight(name + ".gain", {operand.shape.empty() ? 1 : operand.shape.back()});
        model.Node("Mul", {name + ".x", name + ".gain"}, {name});
        break;
      case Operand::Kind::kTokens: model.Input(name, shape, kInt64Type); break;
      case Operand::Kind::kFlags: model.Input(name, shape, kBoolType); break;
      case Operand::Kind::kWeight: model.Weight(name, operand.shape); break;
      case Operand::Kind::kIntegers: model.Integers(name, operand.integers); break;
      case Operand::Kind::kInteger: model.Integer(name, operand.integers[0]); break;
      case Operand::Kind::kNumbers: model.Numbers(name, operand.numbers); break;
      case Operand::Kind::kNumber: model.Number(name, operand.numbers[0]); break;
      case Operand::Kind::kNone: inputs.back() = ""; break;
    }
  }
  std::vector<std::string> outputs = {"y"};
  for (int i = 1; i < example.outputs; ++i) outputs.push_back("y" + std::to_string(i));
  return model.Node(example.op, inputs, outputs, example.attributes).Output("y").Output("trained");
}

// The shape of "y" after all nodes have been lowered, tensor or contents.
Dims OutputShape(const OnnxModel& model) {
  File file = ParseFile(model.Bytes()).value();
  const ModelOptions options = Batch(2);
  Lowering state(file, options);
  EXPECT_TRUE(MakeInputs(state).has_value());
  for (const Node& node : file.nodes) {
    const Status status = LowerNode(state, node);
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }
  const Value& value = state.values[file.outputs[0]];
  if (value.tensor.valid()) return state.b.shape(value.tensor);
  if (value.contents) return value.contents->shape;
  return value.sequence.empty() ? Dims{-1} : state.b.shape(value.sequence[0]);
}

const std::vector<Example>& Examples() {
  const Dims image = {2, 4, 8, 8};
  // clang-format off
  static const auto* examples = new std::vector<Example>{
      // ---- convolution: (8 + 1 + 1 - 2 * 2 - 1) / 2 + 1 = 3
      {"Conv", {Data(image), Weight({6, 4, 3, 3}), Weight({6})}, {2, 6, 3, 3},
       {{"pads", Int64s{1, 1, 1, 1}}, {"strides", Int64s{2, 2}}, {"dilations", Int64s{2, 2}}}},
      {"Conv", {Data(image), Weight({6, 2, 3, 3})}, {2, 6, 8, 8}, {{"group", 2}, {"auto_pad", "SAME_UPPER"}}},
      {"Conv", {Data(image), Weight({6, 4, 2, 2})}, {2, 6, 8, 8}, {{"pads", Int64s{0, 0, 1, 1}}}},
      {"Conv", {Data({2, 4, 8}), Weight({6, 4, 3})}, {2, 6, 6}},
      {"Conv", {Data({2, 4, 8, 8, 8}), Weight({6, 4, 3, 3, 3})}, {2, 6, 6, 6, 6}},
      // (8 - 1) * 2 - 2 * 1 + (3 - 1) + 1 + 1 = 16
      {"ConvTranspose", {Data(image), Weight({4, 3, 3, 3}), Weight({3})}, {2, 3, 16, 16},
       {{"strides", Int64s{2, 2}}, {"pads", Int64s{1, 1, 1, 1}}, {"output_padding", Int64s{1, 1}}}},
      // ---- pools: floor((8 - 3) / 2) + 1 = 3, and with ceil_mode ceil(5 / 2) + 1 = 4
      {"MaxPool", {Data(image)}, {2, 4, 3, 3}, {{"kernel_shape", Int64s{3, 3}}, {"strides", Int64s{2, 2}}}},
      {"MaxPool", {Data(image)}, {2, 4, 4, 4}, {{"kernel_shape", Int64s{3, 3}}, {"strides", Int64s{2, 2}}, {"ceil_mode", 1}}, 21, 2},
      {"MaxPool", {Data({2, 4, 8})}, {2, 4, 4}, {{"kernel_shape", Int64s{2}}, {"strides", Int64s{2}}}},
      {"MaxPool", {Data({2, 4, 8, 8, 8})}, {2, 4, 4, 4, 4}, {{"kernel_shape", Int64s{2, 2, 2}}, {"strides", Int64s{2, 2, 2}}}},
      {"AveragePool", {Data(image)}, {2, 4, 8, 8}, {{"kernel_shape", Int64s{3, 3}}, {"pads", Int64s{1, 1, 1, 1}}}},
      {"AveragePool", {Data({2, 4, 8, 8, 8})}, {2, 4, 7, 7, 7}, {{"kernel_shape", Int64s{2, 2, 2}}}},
      {"GlobalAveragePool", {Data(image)}, {2, 4, 1, 1}},
      {"GlobalAveragePool", {Data({2, 4, 8})}, {2, 4, 1}},
      {"GlobalMaxPool", {Data(image)}, {2, 4, 1, 1}},
      // ---- normalisation
      {"BatchNormalization", {Data(image), Weight({4}), Weight({4}), Weight({4}), Weight({4})}, image, {}, 21, 3},
      {"LayerNormalization", {Data({2, 6, 4}), Weight({4}), Weight({4})}, {2, 6, 4}},
      {"LayerNormalization", {Data({2, 6, 4}), Weight({6, 4})}, {2, 6, 4}, {{"axis", 1}}},
      {"RMSNormalization", {Data({2, 6, 4}), Weight({4})}, {2, 6, 4}, {}, 23},
      {"GroupNormalization", {Data(image), Weight({4}), Weight({4})}, image, {{"num_groups", 2}}},
      {"InstanceNormalization", {Data(image), Weight({4}), Weight({4})}, image},
      // ---- products
      {"MatMul", {Data({2, 6, 4}), Weight({4, 5})}, {2, 6, 5}},
      {"MatMul", {Data({2, 3, 6, 4}), Data({3, 4, 5})}, {2, 3, 6, 5}},
      {"MatMul", {Data({4}), Data({2, 4, 5})}, {2, 5}},
      {"MatMul", {Data({2, 6, 4}), Data({4})}, {2, 6}},
      {"MatMul", {Data({4}), Data({4})}, {}},
      {"Gemm", {Data({2, 4}), Weight({5, 4}), Weight({5})}, {2, 5}, {{"transB", 1}}},
      {"Gemm", {Data({4, 2}), Weight({4, 5})}, {2, 5}, {{"transA", 1}}},
      {"ebbtide.Linear", {Data({2, 6, 4}), Weight({5, 4}), Weight({5})}, {2, 6, 5}},
      {"Einsum", {Data({2, 3, 6, 4}), Data({2, 3, 5, 4})}, {2, 3, 6, 5}, {{"equation", "bhid, bhjd -> bhij"}}},
      {"Einsum", {Data({2, 6, 4}), Weight({3, 4, 5})}, {2, 3, 6, 5}, {{"equation", "bsd,hdk->bhsk"}}},
      {"ebbtide.Attention", {Data({2, 3, 6, 4}), Data({2, 3, 5, 4}), Data({2, 3, 5, 4}), Flags({6, 5})}, {2, 3, 6, 4}, {{"dropout", 0.1}}},
      {"Attention", {Data({2, 4, 6, 4}), Data({2, 2, 5, 4}), Data({2, 2, 5, 4})}, {2, 4, 6, 4}, {{"is_causal", 1}}, 23},
      {"Attention", {Data({2, 6, 16}), Data({2, 5, 8}), Data({2, 5, 8}), Flags({6, 8}), Data({2, 2, 3, 4}), Data({2, 2, 3, 4})}, {2, 6, 16},
       {{"q_num_heads", 4}, {"kv_num_heads", 2}}, 23, 3},
      {"ebbtide.Lstm", {Data({5, 2, 3}), Weight({8, 3}), Weight({8, 2}), Weight({8}), Weight({8})}, {5, 1, 2, 2}, {{"hidden_size", 2}}},
      {"ebbtide.Lstm", {Data({5, 2, 3}), Weight({1, 8, 3}), Weight({1, 8, 2}), Weight({1, 16})}, {5, 1, 2, 2}, {{"hidden_size", 2}}, 21, 3},
      // ---- activations
      {"Relu", {Data(image)}, image}, {"LeakyRelu", {Data(image)}, image}, {"Elu", {Data(image)}, image}, {"Celu", {Data(image)}, image},
      {"Selu", {Data(image)}, image}, {"ThresholdedRelu", {Data(image)}, image}, {"HardSwish", {Data(image)}, image},
      {"Swish", {Data(image)}, image, {}, 24}, {"HardSigmoid", {Data(image)}, image}, {"Sigmoid", {Data(image)}, image},
      {"Tanh", {Data(image)}, image}, {"Softplus", {Data(image)}, image}, {"Mish", {Data(image)}, image}, {"Erf", {Data(image)}, image},
      {"Exp", {Data(image)}, image}, {"Log", {Data(image)}, image}, {"Sqrt", {Data(image)}, image}, {"Reciprocal", {Data(image)}, image},
      {"Neg", {Data(image)}, image}, {"Abs", {Data(image)}, image}, {"Sin", {Data(image)}, image}, {"Cos", {Data(image)}, image},
      {"Sign", {Data(image)}, image}, {"Floor", {Data(image)}, image}, {"Ceil", {Data(image)}, image}, {"Round", {Data(image)}, image},
      {"Clip", {Data(image), Number(0), Number(6)}, image}, {"Clip", {Data(image), None(), Number(1)}, image},
      {"Gelu", {Data(image)}, image, {{"approximate", "tanh"}}}, {"PRelu", {Data(image), Weight({4, 1, 1})}, image},
      {"Softsign", {Data(image)}, image}, {"Softmax", {Data(image)}, image, {{"axis", 1}}}, {"LogSoftmax", {Data(image)}, image},
      {"Dropout", {Data(image), Number(0.3f)}, image}, {"Dropout", {Data(image)}, image, {{"ratio", 0.2}}, 11},
      // ---- arithmetic
      {"Add", {Data({2, 1, 4}), Data({6, 1})}, {2, 6, 4}}, {"Add", {Data({2, 4}), Number(1)}, {2, 4}},
      {"Sub", {Data({2, 4}), Data({4})}, {2, 4}}, {"Sub", {Number(1), Data({2, 4})}, {2, 4}}, {"Mul", {Data({2, 4}), Data({2, 1})}, {2, 4}},
      {"Div", {Data({2, 4}), Data({4})}, {2, 4}}, {"Div", {Number(2), Data({2, 4})}, {2, 4}}, {"Pow", {Data({2, 4}), Number(3)}, {2, 4}},
      {"Pow", {Number(2), Data({2, 4})}, {2, 4}}, {"Pow", {Data({2, 4}), Number(0.5)}, {2, 4}}, {"Mod", {Data({2, 4}), Number(3)}, {2, 4}},
      {"Max", {Data({2, 4}), Data({4}), Number(0)}, {2, 4}}, {"Min", {Data({2, 4})}, {2, 4}}, {"Sum", {Data({2, 4}), Data({4}), Data({1})}, {2, 4}},
      {"Mean", {Data({2, 4}), Data({4})}, {2, 4}}, {"Equal", {Tokens({2, 4}), Int(0)}, {2, 4}}, {"Less", {Data({2, 4}), Data({4})}, {2, 4}},
      {"LessOrEqual", {Data({2, 4}), Number(1)}, {2, 4}}, {"Greater", {Number(1), Data({2, 4})}, {2, 4}}, {"GreaterOrEqual", {Tokens({4}), Tokens({2, 1})}, {2, 4}},
      {"And", {Flags({2, 4}), Flags({4})}, {2, 4}}, {"Or", {Flags({2, 4}), Flags({4})}, {2, 4}}, {"Xor", {Flags({2, 4}), Flags({4})}, {2, 4}},
      {"Not", {Flags({2, 4})}, {2, 4}}, {"IsNaN", {Data({2, 4})}, {2, 4}}, {"IsInf", {Data({2, 4})}, {2, 4}},
      {"Where", {Flags({4}), Data({2, 1}), Number(0)}, {2, 4}}, {"Cast", {Data({2, 4})}, {2, 4}, {{"to", 10}}}, {"CastLike", {Tokens({2, 4}), Data({1})}, {2, 4}},
      // ---- shapes
      {"Reshape", {Data({2, 6, 4}), Ints({0, -1, 2})}, {2, 12, 2}}, {"Flatten", {Data(image)}, {2, 256}}, {"Flatten", {Data(image)}, {1, 512}, {{"axis", 0}}},
      {"Transpose", {Data({2, 3, 4})}, {4, 3, 2}}, {"Transpose", {Data({2, 3, 4})}, {2, 4, 3}, {{"perm", Int64s{0, 2, 1}}}},
      {"Squeeze", {Data({2, 1, 4, 1}), Ints({1})}, {2, 4, 1}}, {"Squeeze", {Data({2, 1, 4, 1})}, {2, 4}},
      {"Squeeze", {Data({2, 1, 4, 1})}, {2, 1, 4}, {{"axes", Int64s{-1}}}, 11}, {"Unsqueeze", {Data({2, 4}), Ints({-1, 0})}, {1, 2, 4, 1}},
      {"Expand", {Data({2, 1, 4}), Ints({3, 1})}, {2, 3, 4}}, {"Slice", {Data(image), Ints({1, 0}), Ints({-1, 8}), Ints({2, 3}), Ints({1, 3})}, {2, 4, 6, 3}},
      {"Slice", {Data(image), Ints({-1}), Ints({INT64_MIN}), Ints({1}), Ints({-1})}, image}, {"Identity", {Data(image)}, image},
      {"DepthToSpace", {Data(image)}, {2, 1, 16, 16}, {{"blocksize", 2}}}, {"SpaceToDepth", {Data(image)}, {2, 16, 4, 4}, {{"blocksize", 2}}},
      // ---- joining and cutting
      {"Concat", {Data({2, 3, 4}), Data({2, 5, 4})}, {2, 8, 4}, {{"axis", 1}}}, {"Split", {Data({2, 6})}, {2, 3}, {{"axis", 1}}, 21, 2},
      {"Split", {Data({2, 6}), Ints({1, 5})}, {2, 1}, {{"axis", -1}}, 21, 2}, {"Split", {Data({2, 6})}, {2, 4}, {{"axis", 1}, {"split", Int64s{4, 2}}}, 11, 2},
      {"Tile", {Data({2, 3}), Ints({1, 4})}, {2, 12}}, {"Pad", {Data(image), Ints({0, 0, 1, 1, 0, 0, 2, 2})}, {2, 4, 11, 11}},
      {"Pad", {Data(image), Ints({1, 1}), None(), Ints({3})}, {2, 4, 8, 10}, {{"mode", "reflect"}}}, {"Pad", {Data(image), Ints({0, 0, 1, 0, 0, 0, 0, 0})}, {2, 4, 9, 8}, {{"mode", "edge"}}},
      {"SplitToSequence", {Data({2, 6}), Int(2)}, {2, 2}, {{"axis", 1}}}, {"SplitToSequence", {Data({2, 6})}, {2}, {{"axis", 1}, {"keepdims", 0}}},
      {"SequenceConstruct", {Data({2, 6}), Data({2, 6})}, {2, 6}},
      // ---- indices
      {"Gather", {Weight({9, 4}), Tokens({2, 6})}, {2, 6, 4}}, {"Gather", {Data({2, 6, 4}), Int(-1)}, {2, 4}, {{"axis", 1}}},
      {"Gather", {Data({2, 6, 4}), Ints({0, 5, 2})}, {2, 3, 4}, {{"axis", 1}}}, {"Gather", {Data({2, 6, 4}), Tokens({2, 3})}, {2, 6, 2, 3}, {{"axis", 2}}},
      {"GatherElements", {Data({2, 6}), Tokens({2, 3})}, {2, 3}, {{"axis", 1}}}, {"GatherND", {Data({2, 6, 4}), Tokens({5, 2})}, {5, 4}},
      {"GatherND", {Data({2, 6, 4}), Tokens({2, 3, 1})}, {2, 3, 4}, {{"batch_dims", 1}}}, {"ScatterND", {Data({6, 4}), Tokens({2, 1}), Data({2, 4})}, {6, 4}},
      {"ScatterElements", {Data({6, 4}), Tokens({2, 4}), Data({2, 4})}, {6, 4}}, {"OneHot", {Tokens({2, 3}), Int(7), Numbers({0, 1})}, {2, 3, 7}},
      {"TopK", {Data({2, 6}), Ints({3})}, {2, 3}, {}, 21, 2}, {"Trilu", {Data({6, 6})}, {6, 6}, {{"upper", 0}}},
      // ---- reductions
      {"ReduceMean", {Data(image), Ints({-1, -2})}, {2, 4, 1, 1}}, {"ReduceMean", {Data(image)}, {2, 4}, {{"axes", Int64s{2, 3}}, {"keepdims", 0}}, 13},
      {"ReduceSum", {Data(image), Ints({1})}, {2, 8, 8}, {{"keepdims", 0}}}, {"ReduceSum", {Data({2, 3})}, {1, 1}}, {"ReduceSum", {Data({2, 3})}, {2, 3}, {{"noop_with_empty_axes", 1}}},
      {"ReduceMax", {Data(image), Ints({1})}, {2, 1, 8, 8}}, {"ReduceMin", {Data(image), Ints({1})}, {2, 1, 8, 8}}, {"ReduceProd", {Data(image), Ints({1})}, {2, 1, 8, 8}},
      {"ReduceL1", {Data(image), Ints({1})}, {2, 1, 8, 8}}, {"ReduceL2", {Data(image), Ints({1})}, {2, 1, 8, 8}}, {"ReduceLogSumExp", {Data(image), Ints({1})}, {2, 1, 8, 8}},
      {"ReduceSumSquare", {Data(image), Ints({1})}, {2, 1, 8, 8}}, {"ReduceLogSum", {Data(image), Ints({1})}, {2, 1, 8, 8}}, {"ArgMax", {Data(image)}, {2, 8, 8}, {{"axis", 1}, {"keepdims", 0}}},
      {"ArgMin", {Data(image)}, {2, 1, 8, 8}, {{"axis", 1}}}, {"CumSum", {Data(image), Int(1)}, image},
      // ---- sizes of images: floor(8 * 1.5) = 12
      {"Resize", {Data(image), None(), Numbers({1, 1, 1.5, 2})}, {2, 4, 12, 16}, {{"mode", "linear"}}}, {"Resize", {Data(image), None(), None(), Ints({2, 4, 5, 6})}, {2, 4, 5, 6}, {{"mode", "cubic"}}},
      {"Resize", {Data({2, 4, 8}), None(), None(), Ints({2, 4, 16})}, {2, 4, 16}}, {"Upsample", {Data(image), Numbers({1, 1, 2, 2})}, {2, 4, 16, 16}},
      // ---- made from shapes or chance
      {"Shape", {Data(image)}, {4}}, {"Shape", {Data(image)}, {2}, {{"start", -2}}}, {"Size", {Data(image)}, {}}, {"Range", {Int(0), Int(100000), Int(1)}, {100000}},
      {"ConstantOfShape", {Ints({2, 3})}, {2, 3}}, {"RandomUniform", {}, {2, 3}, {{"shape", Int64s{2, 3}}}}, {"RandomNormal", {}, {2, 3}, {{"shape", Int64s{2, 3}}}},
      {"RandomUniformLike", {Data(image)}, image}, {"RandomNormalLike", {Data(image)}, image}, {"Bernoulli", {Data(image)}, image},
  };
  // clang-format on
  return *examples;
}

class EveryOperator : public ::testing::TestWithParam<Example> {};

TEST_P(EveryOperator, HasItsShapeAndGradient) {
  const OnnxModel model = ModelOf(GetParam());
  EXPECT_EQ(OutputShape(model), GetParam().shape);
  for (Device device : {Device::kCpu, Device::kCuda}) {
    ModelOptions options = Batch(2);
    options.device = device;
    options.optimizer = "adam";
    const TrainingGraph graph = ReadGood(model, options);
    const Status status = Check(graph);
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }
}

std::string ExampleName(const ::testing::TestParamInfo<Example>& info) {
  std::string name = info.param.op;
  std::erase(name, '.');
  return name + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Onnx, EveryOperator, ::testing::ValuesIn(Examples()), ExampleName);

TEST(OperatorsTest, AllHaveAnExample) {
  std::set<std::string_view> shown = {"SequenceAt", "ConcatFromSequence"};  // below: they read sequences
  for (const Example& example : Examples()) shown.insert(example.op);
  for (std::string_view name : OperatorNames()) EXPECT_TRUE(shown.contains(name)) << name;
}

TEST(OperatorsTest, Sequences) {
  OnnxModel model;
  model.Input("x", {"batch", 6}).Weight("w", {6, 6}).Integer("two", 2).Integer("last", -1);
  model.Node("MatMul", {"x", "w"}, {"h"}).Node("SplitToSequence", {"h", "two"}, {"s"}, {{"axis", 1}});
  OnnxModel at = model;
  at.Node("SequenceAt", {"s", "last"}, {"y"}).Output("y");
  EXPECT_EQ(ShapeOf(ReadGood(at), "_log_softmax"), (Dims{2, 2}));
  OnnxModel joined = model;
  joined.Node("ConcatFromSequence", {"s"}, {"y"}, {{"axis", 1}}).Output("y");
  EXPECT_EQ(ShapeOf(ReadGood(joined), "_log_softmax"), (Dims{2, 6}));
  EXPECT_THAT(ErrorOf(model.Node("Relu", {"s"}, {"y"}).Output("y")), HasSubstr("expected a tensor, found a sequence"));
}

// ---- What is refused

std::string Refused(const Example& example) {
  const std::string message = ErrorOf(ModelOf(example));
  const std::size_t place = message.find("): ");
  return place == std::string::npos ? message : message.substr(place + 3);
}

TEST(RefusedTest, ShapesThatDoNotFit) {
  EXPECT_EQ(Refused({"Conv", {Data({2, 4, 8, 8}), Weight({6, 3, 3, 3})}, {}}),
            "weight [6, 3, 3, 3]: expected one for 4 channels in 1 groups");
  EXPECT_EQ(Refused({"Conv", {Data({2, 4, 2, 2}), Weight({6, 4, 3, 3})}, {}}),
            "input [2, 4, 2, 2]: axis 2 is smaller than the kernel, which reaches over 3; expected a larger image");
  EXPECT_EQ(Refused({"Conv", {Data({2, 4}), Weight({6, 4})}, {}}),
            "input [2, 4]: expected a batch of channels with 1 to 3 spatial axes");
  EXPECT_EQ(Refused({"MatMul", {Data({2, 4}), Data({5, 4})}, {}}),
            "[2, 4] and [5, 4]: expected matrices that multiply");
  EXPECT_EQ(Refused({"Add", {Data({2, 4}), Data({3})}, {}}), "[2, 4] and [3]: expected shapes that broadcast");
  EXPECT_EQ(Refused({"Reshape", {Data({2, 4}), Ints({3, -1})}, {}}),
            "shape [3, -1]: expected one of as many elements as [2, 4]");
  EXPECT_EQ(Refused({"Concat", {Data({2, 4}), Data({3, 4})}, {}, {{"axis", 1}}}),
            "[2, 4] and [3, 4]: expected shapes that differ in axis 1 alone");
  EXPECT_EQ(Refused({"LayerNormalization", {Data({2, 6, 4}), Weight({5})}, {}}), "input 1 [5]: expected [4]");
  EXPECT_EQ(Refused({"Split", {Data({2, 6}), Ints({1, 6})}, {}, {{"axis", 1}}, 21, 2}),
            "split [1, 6]: expected parts of 6");
  EXPECT_EQ(Refused({"Slice", {Data({2, 6}), Ints({3}), Ints({3}), Ints({1})}, {}}),
            "axis 1 of [2, 6]: nothing is left");
}

TEST(RefusedTest, NumbersOutOfRange) {
  EXPECT_EQ(Refused({"Conv", {Data({2, 4, 8, 8}), Weight({6, 4, 3, 3})}, {}, {{"strides", Int64s{0, 1}}}}),
            "strides: expected 2 numbers from 1 to 2^20");
  EXPECT_EQ(Refused({"Conv", {Data({2, 4, 8, 8}), Weight({6, 4, 3, 3})}, {}, {{"pads", Int64s{-1, 0, 0, 0}}}}),
            "pads: expected 4 numbers from 0 to 2^20");
  EXPECT_EQ(Refused({"MaxPool", {Data({2, 4, 8, 8})}, {}}), "kernel_shape: expected one");
  EXPECT_EQ(Refused({"Dropout", {Data({2, 4}), Number(1.5)}, {}}), "ratio 1.5: expected 0 or more, and less than 1");
  EXPECT_EQ(Refused({"Softmax", {Data({2, 4})}, {}, {{"axis", 2}}}), "axis: expected one of [2, 4]");
  EXPECT_EQ(Refused({"Gather", {Data({2, 4}), Int(4)}, {}, {{"axis", 1}}}), "index 4: expected one of 4");
  EXPECT_EQ(Refused({"Tile", {Data({2, 4}), Ints({1, INT64_MAX})}, {}}),
            "repeats [1, 9223372036854775807]: expected positive numbers");
}

TEST(RefusedTest, WrongTypesAndCounts) {
  EXPECT_EQ(Refused({"Softmax", {Data({2, 4})}, {}, {{"axis", "last"}}}), "attribute axis: expected an integer");
  EXPECT_EQ(Refused({"Relu", {Data({2, 4}), Data({2, 4})}, {}}), "2 inputs: expected 1");
  EXPECT_EQ(Refused({"Conv", {Data({2, 4})}, {}}), "1 inputs: expected 2 to 3");
  EXPECT_EQ(Refused({"Reshape", {Data({2, 4}), Tokens({2})}, {}}),
            "input 1: expected a list of integers that follows from constants and shapes");
  EXPECT_EQ(Refused({"Gather", {Data({2, 6, 4}), Data({3})}, {}}), "indices: expected integers");
  EXPECT_EQ(Refused({"Conv", {Data({2, 4, 8, 8}), None()}, {}}), "input 1: expected one");
}

TEST(RefusedTest, OperatorsThatAreNotSupported) {
  OnnxModel model = SmallClassifier();
  model.message.mutable_graph()->mutable_node(2)->set_op_type("Foo");
  model.message.mutable_graph()->mutable_node(2)->set_name("/a/b");
  EXPECT_EQ(ErrorOf(model),
            "test.onnx: node 2 (name \"/a/b\", op Foo): operator is not supported; --assume-elementwise goes on as if "
            "it kept "
            "the shape of its first input");
  model.message.mutable_graph()->mutable_node(2)->set_domain("com.acme");
  EXPECT_THAT(ErrorOf(model), HasSubstr("op com.acme.Foo"));
}

TEST(RefusedTest, TheUserMayGoOnKnowingly) {
  OnnxModel model = SmallClassifier();
  model.message.mutable_graph()->mutable_node(2)->set_op_type("Foo");
  ModelOptions options = Batch(2);
  options.assume_elementwise = true;
  const TrainingGraph graph = ReadGood(model, options);
  // [2, 4, 6, 6], which it keeps; its input is kept for its gradient.
  EXPECT_EQ(ShapeOf(graph, "assumed_elementwise"), (Dims{2, 4, 6, 6}));
  // What follows still has to fit.
  OnnxModel unfit;
  unfit.Input("x", {"batch", 6})
      .Weight("w", {3, 5})
      .Node("Foo", {"x"}, {"a"})
      .Node("MatMul", {"a", "w"}, {"y"})
      .Output("y");
  EXPECT_THAT(ErrorOf(unfit, options),
              HasSubstr("node 1 (op MatMul): [2, 6] and [3, 5]: expected matrices that multiply"));
}

TEST(InPlaceTest, ActivationsBehindBatchNorms) {
  // As in torchvision: the batch norm's output is overwritten, and the residual added into it.
  EXPECT_THAT(ForwardKinds(ReadGood(SmallClassifier())), ::testing::Contains("relu_"));
  OnnxModel twice = SmallClassifier();
  twice.message.mutable_graph()->clear_output();
  twice.Node("Add", {"b", "c"}, {"z"}).Output("z");  // reads the batch norm's output, too
  EXPECT_THAT(ForwardKinds(ReadGood(twice)), ::testing::Contains("relu"));
}

}  // namespace
}  // namespace ebbtide::model::onnx
