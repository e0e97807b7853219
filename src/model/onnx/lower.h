// From ONNX operators to the ATen ops that PyTorch would run for them (ops.h). Each operator has a rule; the rules lie
// in lower_*.cc by family, each with a table. Rules check what a file may have wrong before they call ops, which
// assert.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/builder.h"
#include "model/onnx/analysis.h"
#include "model/onnx/fold.h"

namespace ebbtide::model::onnx {

// What a name of the file stands for once its node has been passed. Shapes and other numbers that a framework computes
// on the host are contents without a tensor, until an op reads them as one.
struct Value {
  TensorId tensor = {};
  std::optional<Array> contents = {};
  std::vector<TensorId> sequence = {};
};

// The graph under construction.
struct Lowering {
  Lowering(const File& file, const ModelOptions& options);

  const File& file;
  const ModelOptions& options;
  Analysis analysis;
  std::vector<bool> is_parameter;  // by ValueId, of initializers
  Builder b;
  std::vector<Value> values;        // by ValueId
  std::int64_t known_elements = 0;  // held in contents so far
};

// One node and its rule's view of it.
class Call {
 public:
  Call(Lowering& state, const Node& node) : b(state.b), node(node), state_(state) {}

  Builder& b;
  const Node& node;

  std::int64_t opset() const { return state_.file.opset; }
  const ModelOptions& options() const { return state_.options; }

  // ---- Inputs.
  bool Has(std::size_t i) const { return node.input(i) != kNoValue; }
  Result<TensorId> Tensor(std::size_t i);             // as a tensor on the device, made now where need be
  const Array* Contents(std::size_t i) const;         // nullptr: absent, or not known
  std::optional<double> Number(std::size_t i) const;  // all elements are this
  Result<Dims> Integers(std::size_t i);               // a list, or one number
  Result<const std::vector<TensorId>*> Sequence(std::size_t i);
  Result<Dims> Shape(std::size_t i);  // without making a tensor
  Result<DType> Type(std::size_t i);
  bool IsParameter(std::size_t i) const;
  bool IsInitializer(std::size_t i) const;
  const std::string& NameOf(std::size_t i) const;  // of an input that is there
  // The node that makes the input, if nothing else reads it; else nullptr.
  const Node* MakerForThisAlone(std::size_t i) const;

  // ---- Attributes. One of another type than asked for is remembered and reported after the rule.
  std::int64_t Int(std::string_view name, std::int64_t fallback);
  double Float(std::string_view name, double fallback);
  std::string Text(std::string_view name, std::string_view fallback);
  std::optional<Dims> Ints(std::string_view name);

  // ---- Outputs.
  Status Set(std::size_t i, TensorId tensor);
  Status SetContents(std::size_t i, Array contents);
  void SetSequence(std::size_t i, std::vector<TensorId> tensors);
  bool Wants(std::size_t i) const { return i < node.outputs.size() && node.outputs[i] != kNoValue; }

  // "node 17 (...): what".
  tl::unexpected<Error> Wrong(const std::string& what) const;
  Status CheckAttributes() const;

  // A tensor of those contents.
  TensorId Make(const Array& contents, const std::string& name, bool from_file);

 private:
  Result<Value*> Find(std::size_t i);

  Lowering& state_;
  std::optional<std::string> wrong_attribute_;
};

using Rule = Status (*)(Call& call);
struct OperatorRow {
  std::string_view op;
  std::size_t fewest_inputs, most_inputs;
  Rule rule;
};

// ---- Tables, one per file.
std::span<const OperatorRow> ActivationRules();
std::span<const OperatorRow> ArithmeticRules();
std::span<const OperatorRow> ConvolutionRules();
std::span<const OperatorRow> PoolingRules();
std::span<const OperatorRow> NormalizationRules();
std::span<const OperatorRow> MatrixRules();
std::span<const OperatorRow> EinsumRules();
std::span<const OperatorRow> AttentionRules();
std::span<const OperatorRow> RecurrentRules();
std::span<const OperatorRow> ViewRules();
std::span<const OperatorRow> JoinRules();
std::span<const OperatorRow> IndexRules();
std::span<const OperatorRow> ReductionRules();
std::span<const OperatorRow> ResizeRules();
std::span<const OperatorRow> SourceRules();
std::span<const OperatorRow> SequenceRules();

const OperatorRow* FindOperator(std::string_view op);
std::vector<std::string_view> OperatorNames();  // sorted

// Records the node's ops, or finds its contents.
Status LowerNode(Lowering& state, const Node& node);

// "[2, 3]", for messages.
std::string ShapeText(const Dims& shape);

inline constexpr std::size_t kAnyNumber = kMostNodeValues;

}  // namespace ebbtide::model::onnx
