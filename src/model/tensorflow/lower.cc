// Counts who still reads a buffer, so that a kernel may write over one that nobody else needs.
#include "model/tensorflow/lower.h"

#include <algorithm>

#include "graph/shape.h"
#include "model/tensorflow/operators.h"
#include "model/tensorflow/phases.h"
#include "model/tensorflow/schedule.h"
#include "model/tensorflow/window.h"

namespace ebbtide::model::tensorflow {
namespace {

constexpr std::string_view kSecondOverFirst = "0>1";

class Lowering {
 public:
  explicit Lowering(const Flat& flat)
      : flat_(flat), order_(ExecutionOrder(flat)), tensors_(flat.values.size()), readers_(flat.values.size()) {
    for (const FlatNode& node : flat.nodes) {
      for (const ValueId input : node.inputs) ++readers_[static_cast<std::size_t>(input)];
    }
    for (const ValueId result : flat.results) ++readers_[static_cast<std::size_t>(result)];
  }

  Result<TrainingGraph> Run() {
    AddVariables();
    for (const int number : order_) {
      const FlatNode& node = flat_.node(number);
      if (node.op == "NoOp" || node.op == "Assert") continue;
      if (const Status status = Lower(number, node); !status) return Within(Describe(node), status.error());
    }
    for (const ValueId result : flat_.results) {
      const TensorId tensor = tensors_[static_cast<std::size_t>(result)];
      if (tensor.valid()) graph_.outputs.push_back(tensor);
    }
    AssignPhases(flat_, ran_, graph_);
    return std::move(graph_);
  }

 private:
  // ---- Storages.
  Result<TensorId> NewStorage(StorageKind kind, std::string name, const Value& value) {
    const auto bytes = CheckedBytes(value.shape, value.type.dtype);
    if (!bytes || __builtin_add_overflow(total_, *bytes, &total_)) return Fail("expected sizes below 2^63 bytes");
    const StorageId storage(graph_.storages.size());
    graph_.storages.emplace_back();
    graph_.storages.back().bytes = *bytes;
    graph_.storages.back().kind = kind;
    graph_.storages.back().name = name;
    uses_.push_back(0);
    return NewTensor(storage, value, 0, std::move(name));
  }
  static std::optional<Bytes> CheckedBytes(const Dims& shape, DType dtype) {
    const auto count = ElementCount(shape);
    return count ? CheckedMul(*count, ItemSize(dtype)) : std::nullopt;
  }
  TensorId NewTensor(StorageId storage, const Value& value, std::int64_t offset, std::string name) {
    const TensorId id(graph_.tensors.size());
    graph_.tensors.push_back({.storage = storage,
                              .dtype = value.type.dtype,
                              .shape = value.shape,
                              .stride = *ContiguousStride(value.shape),
                              .offset = offset,
                              .name = std::move(name)});
    return id;
  }

  void AddVariables() {
    const std::vector<StorageKind> kinds = KindsOfVariables(flat_);
    for (std::size_t i = 0; i < flat_.variables.size(); ++i) {
      const Variable& variable = flat_.variables[i];
      // Sizes were checked when the variable was read.
      variables_.push_back(
          *NewStorage(kinds[i], variable.name, {.type = {Kind::kNumbers, variable.dtype}, .shape = variable.shape}));
    }
  }

  TensorId At(ValueId id) const { return tensors_[static_cast<std::size_t>(id)]; }
  std::int64_t& UsesOf(TensorId id) { return uses_[graph_.tensor(id).storage.index()]; }
  static void AddOnce(std::vector<TensorId>& list, TensorId id) {
    if (id.valid() && std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  }

  void Set(ValueId id, TensorId tensor) {
    tensors_[static_cast<std::size_t>(id)] = tensor;
    UsesOf(tensor) += readers_[static_cast<std::size_t>(id)];
  }

  // ---- Nodes.
  Status Lower(int number, const FlatNode& node) {
    if (node.op == "Placeholder" || node.op == "Const") {
      const Value& value = flat_.value(node.outputs[0]);
      if (value.type.kind != Kind::kNumbers) return {};
      const StorageKind kind = node.op == "Const" ? StorageKind::kBuffer : StorageKind::kInput;
      EBB_ASSIGN_OR_RETURN(const TensorId tensor, NewStorage(kind, node.name, value));
      Set(node.outputs[0], tensor);
      return {};
    }
    if (node.op == "ReadVariableOp" || node.op == "VariableV2" || node.op == "Variable") {
      Set(node.outputs[0], variables_[static_cast<std::size_t>(flat_.value(node.outputs[0]).variable)]);
      return {};
    }
    const Operator* row = FindOperator(node.op);
    Op op;
    op.kind = row == nullptr ? "assumed_elementwise" : std::string(row->kind);
    op.layer = node.name;
    op.schema = "tensorflow::" + node.op;
    const bool makes_nothing = node.outputs.empty();
    for (const ValueId input : node.inputs) {
      const Value& value = flat_.value(input);
      if (value.type.kind == Kind::kResource && value.variable != kNone) {
        const TensorId variable = variables_[static_cast<std::size_t>(value.variable)];
        AddOnce(op.inputs, variable);
        if (makes_nothing) AddOnce(op.mutated, variable);
      } else {
        AddOnce(op.inputs, At(input));
      }
    }
    EBB_RETURN_IF_ERROR(MakeOutputs(node, row == nullptr ? "" : row->buffers, op));
    for (const ValueId input : node.inputs) {
      if (At(input).valid()) --UsesOf(At(input));
    }
    if (makes_nothing && op.mutated.empty()) return {};
    if (!makes_nothing && op.outputs.empty()) return {};
    Annotate(node, op);
    graph_.ops.push_back(std::move(op));
    ran_.push_back(number);
    return {};
  }

  Status MakeOutputs(const FlatNode& node, std::string_view buffers, Op& op) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      const Value& value = flat_.value(id);
      if (value.type.kind != Kind::kNumbers || At(id).valid()) continue;
      const std::size_t first = buffers == kSecondOverFirst ? 1 : 0;
      TensorId tensor = i == first || buffers == "alias" ? Reuse(node, buffers, i, value, op) : TensorId();
      if (!tensor.valid()) {
        EBB_ASSIGN_OR_RETURN(tensor, NewStorage(StorageKind::kTemporary, "", value));
      }
      op.outputs.push_back(tensor);
      Set(id, tensor);
    }
    return {};
  }

  // A buffer that the output may have; invalid: none.
  TensorId Reuse(const FlatNode& node, std::string_view buffers, std::size_t output, const Value& value, Op& op) {
    if (node.inputs.empty() || buffers.empty()) return {};
    if (buffers == "alias") {
      const TensorId source = At(node.inputs[0]);
      if (!source.valid() || graph_.tensor(source).dtype != value.type.dtype) return {};
      // Of a list, items lie one behind the other, behind the list itself.
      const bool is_list = flat_.value(node.outputs[0]).type.kind == Kind::kVariant;
      const std::int64_t step = is_list ? *ElementCount(value.shape) * static_cast<std::int64_t>(output - 1) : 0;
      return NewTensor(graph_.tensor(source).storage, value, graph_.tensor(source).offset + step, "");
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool may =
          buffers == "*" || (buffers == kSecondOverFirst && i == 0) ||
          (buffers != kSecondOverFirst && i < 10 && buffers.find(static_cast<char>('0' + i)) != std::string_view::npos);
      const TensorId input = At(node.inputs[i]);
      if (!may || !input.valid() || !MayTake(input, value)) continue;
      AddOnce(op.mutated, input);
      return NewTensor(graph_.tensor(input).storage, value, 0, "");
    }
    return {};
  }

  // Nobody else refers to the buffer, and it is of the same size and type.
  bool MayTake(TensorId input, const Value& value) const {
    const Tensor& tensor = graph_.tensor(input);
    const Storage& storage = graph_.storage(tensor.storage);
    return !IsPersistent(storage.kind) && uses_[tensor.storage.index()] == 1 && tensor.dtype == value.type.dtype &&
           CheckedBytes(value.shape, value.type.dtype) == storage.bytes &&
           ElementCount(tensor.shape) == ElementCount(value.shape);
  }

  // ---- FLOPs, and what workspaces go by.
  void Annotate(const FlatNode& node, Op& op) const {
    op.random = node.op.find("Random") != std::string::npos;
    const auto shape = [&](std::size_t input) -> const Dims& { return flat_.value(node.inputs[input]).shape; };
    if (op.kind == "mm" && node.inputs.size() == 2) {
      const Dims& out = flat_.value(node.outputs[0]).shape;
      const auto* transposed = AttributeAs<bool>(*node.attributes, "transpose_a");
      op.flops = ElementCount({2, out[0], out[1], shape(0)[transposed && *transposed ? 0 : 1]}).value_or(0);
    } else if (node.op.starts_with("BatchMatMul")) {
      const Dims& a = shape(0);
      const auto* transposed = AttributeAs<bool>(*node.attributes, "adj_x");
      const std::int64_t inner = a[a.size() - (transposed && *transposed ? 2 : 1)];
      op.flops = ElementCount({2, ElementCount(flat_.value(node.outputs[0]).shape).value_or(0), inner}).value_or(0);
    } else if (op.kind.starts_with("convolution")) {
      AnnotateConvolution(node, op);
    }
  }

  // As channels-first shapes, whatever the layout: cuDNN's workspaces are told by them.
  void AnnotateConvolution(const FlatNode& node, Op& op) const {
    const bool is_input_gradient = node.op.ends_with("BackpropInput");
    const bool is_filter_gradient = node.op.ends_with("BackpropFilter");
    const ValueId made = node.outputs[0];
    const Dims& image = flat_.value(is_input_gradient ? made : node.inputs[0]).shape;
    const Dims& filter = flat_.value(is_filter_gradient ? made : node.inputs[1]).shape;
    const Dims& result = flat_.value(is_input_gradient || is_filter_gradient ? node.inputs[2] : made).shape;
    const Result<Window> window = WindowOf(*node.attributes, image, {filter[0], filter[1]});
    if (!window) return;
    const bool is_depthwise = node.op.starts_with("Depthwise");
    const auto channels_first = [&](const Dims& s) {
      return Dims{s[0], s[window->channel], s[window->row], s[window->row + 1]};
    };
    const std::int64_t out_channels = result[window->channel];
    const std::int64_t groups =
        is_depthwise ? filter[2] : image[window->channel] / std::max<std::int64_t>(filter[2], 1);
    const std::int64_t per_group = is_depthwise ? 1 : filter[2];
    op.arguments.push_back({"input_shape", channels_first(image)});
    op.arguments.push_back({"output_shape", channels_first(result)});
    op.arguments.push_back({"weight_shape", Dims{out_channels, per_group, filter[0], filter[1]}});
    op.arguments.push_back({"stride", window->stride});
    op.arguments.push_back({"padding", window->before});
    op.arguments.push_back({"dilation", window->dilation});
    op.arguments.push_back({"groups", groups});
    op.arguments.push_back({"channels_last", window->channel == 3});
    op.flops = ElementCount({2, ElementCount(result).value_or(0), per_group, filter[0], filter[1]}).value_or(0);
  }

  const Flat& flat_;
  const std::vector<int> order_;
  TrainingGraph graph_;
  std::vector<TensorId> tensors_;      // by value
  std::vector<std::int64_t> readers_;  // by value: nodes that read it, and the caller of a result
  std::vector<std::int64_t> uses_;     // by storage: reads that are to come
  std::vector<TensorId> variables_;
  std::vector<int> ran_;  // by op: its node
  Bytes total_ = 0;
};

}  // namespace

Result<TrainingGraph> LowerFlat(const Flat& flat, const ModelOptions& options) {
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph, Lowering(flat).Run());
  graph.framework = Framework::kTensorflow;
  graph.meta["framework"] = "tensorflow";
  graph.meta["device"] = "cuda";
  graph.meta["batch_size"] = std::to_string(options.batch_size);
  return graph;
}

}  // namespace ebbtide::model::tensorflow
