// Makes storages and ops of nodes, adds the optimizer's kernels, and gives storages their kinds.
#include "model/mxnet/lower.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "graph/check.h"
#include "graph/shape.h"
#include "model/flops.h"
#include "model/mxnet/gradient.h"
#include "model/mxnet/mxnet.h"

namespace ebbtide::model::mxnet {
namespace {

// MXNet's updates are one kernel for each parameter.
struct Optimizer {
  std::string_view name, kind, op;
  int states;
};
constexpr std::array kOptimizers = {
    Optimizer{"sgd", "_fused_sgd_", "sgd_update", 0},
    Optimizer{"momentum", "_fused_sgd_", "sgd_mom_update", 1},
    Optimizer{"adam", "_fused_adam_", "adam_update", 2},
    Optimizer{"adamw", "_fused_adamw_", "_adamw_update", 2},
    Optimizer{"rmsprop", "rmsprop_", "rmsprop_update", 1},
    Optimizer{"adagrad", "_fused_adagrad_", "adagrad_update", 1},
    Optimizer{"none", "", "", 0},
};

class Lowering {
 public:
  Lowering(const Symbol& symbol, const std::vector<Role>& roles)
      : symbol_(symbol), roles_(roles), tensors_(symbol.nodes.size()) {}

  // `forward_heads`: heads that are no gradients.
  Result<TrainingGraph> Lower(std::size_t forward_heads, const std::vector<int>& trained, const Optimizer& optimizer) {
    for (std::size_t i = forward_heads; i < symbol_.heads.size(); ++i)
      gradients_.insert({symbol_.heads[i], i - forward_heads});
    for (const int node : ExecutionOrder(symbol_)) {
      if (symbol_.node(node).is_variable()) {
        LowerVariable(node);
      } else {
        LowerNode(node);
      }
    }
    for (std::size_t i = 0; i < forward_heads; ++i) graph_.outputs.push_back(At(symbol_.heads[i]));
    for (std::size_t i = 0; i < trained.size(); ++i) {
      const TensorId gradient = At(symbol_.heads[forward_heads + i]);
      Storage& storage = graph_.storages[graph_.tensor(gradient).storage.index()];
      if (storage.kind == StorageKind::kGradient) storage.name = symbol_.node(trained[i]).name;
      if (std::find(graph_.outputs.begin(), graph_.outputs.end(), gradient) == graph_.outputs.end())
        graph_.outputs.push_back(gradient);
      if (optimizer.name != "none") Update(optimizer, {trained[i], 0}, gradient);
    }
    SortKinds();
    if (Status status = Check(graph_); !status) return tl::unexpected<Error>(status.error());
    return std::move(graph_);
  }

 private:
  TensorId At(Entry entry) const {
    return tensors_[static_cast<std::size_t>(entry.node)][static_cast<std::size_t>(entry.output)];
  }

  TensorId NewTensor(StorageId storage, const Dims& shape) {
    graph_.tensors.push_back({.storage = storage, .shape = shape, .stride = *ContiguousStride(shape), .name = {}});
    return TensorId(graph_.tensors.size() - 1);
  }

  TensorId NewStorage(StorageKind kind, const std::string& name, const Dims& shape) {
    graph_.storages.push_back(
        {.bytes = *ElementCount(shape) * ItemSize(DType::kFloat32), .kind = kind, .name = name, .released_after = {}});
    return NewTensor(StorageId(graph_.storages.size() - 1), shape);
  }

  void LowerVariable(int number) {
    constexpr std::array kKinds = {StorageKind::kParameter, StorageKind::kBuffer, StorageKind::kInput};
    const Node& node = symbol_.node(number);
    const StorageKind kind = kKinds[static_cast<std::size_t>(roles_[static_cast<std::size_t>(number)])];
    tensors_[static_cast<std::size_t>(number)] = {NewStorage(kind, node.name, node.shapes[0])};
  }

  void LowerNode(int number) {
    const Node& node = symbol_.node(number);
    const Operator* table = node.gradient_of < 0 ? FindOperator(node) : GradientOperator(node);
    Op op;
    op.phase = node.gradient_of < 0 ? Phase::kForward : Phase::kBackward;
    op.layer = node.gradient_of < 0 ? node.name : symbol_.node(node.gradient_of).name;
    op.schema = "mxnet::" + std::string(node.gradient_of < 0 ? RegisteredName(*table) : std::string_view(node.op));
    op.kind = KindOf(node, table);
    for (const Entry input : node.inputs) AddOnce(op.inputs, At(input));
    const bool is_identity =
        table != nullptr ? (node.gradient_of < 0 ? table->is_identity : table->is_backward_identity) : node.op == kCopy;
    std::vector<TensorId>& made = tensors_[static_cast<std::size_t>(number)];
    for (std::size_t i = 0; i < node.shapes.size(); ++i) {
      const Entry self{number, static_cast<int>(i)};
      const bool is_gradient = gradients_.contains(self);
      const StorageId first = op.inputs.empty() ? StorageId() : graph_.tensor(op.inputs[0]).storage;
      if (is_identity && !is_gradient && first.valid() && MayShare(first)) {
        made.push_back(NewTensor(first, node.shapes[i]));
      } else {
        made.push_back(NewStorage(is_gradient ? StorageKind::kGradient : StorageKind::kTemporary, "", node.shapes[i]));
      }
    }
    op.outputs = made;
    if (is_identity && graph_.tensor(made[0]).storage.valid() && op.kind == "view" && !IsView(op)) op.kind = "clone";
    Describe(op, node, table);
    graph_.ops.push_back(std::move(op));
  }

  bool IsView(const Op& op) const {
    return graph_.tensor(op.outputs[0]).storage == graph_.tensor(op.inputs[0]).storage;
  }
  bool MayShare(StorageId storage) const {
    const StorageKind kind = graph_.storage(storage).kind;
    return !IsPersistent(kind) && kind != StorageKind::kGradient;
  }

  // The row that a gradient's node comes from; null: a sum or a copy.
  const Operator* GradientOperator(const Node& node) const {
    if (node.op == kSum || node.op == kSumOfTwo || node.op == kCopy || node.op == kNoGradient) return nullptr;
    return FindOperator(symbol_.node(node.gradient_of));
  }

  static std::string KindOf(const Node& node, const Operator* table) {
    if (table != nullptr) return std::string(node.gradient_of < 0 ? table->kind : table->backward_kind);
    return node.op == kNoGradient ? "zeros" : node.op == kCopy ? "clone" : "add";
  }

  static void AddOnce(std::vector<TensorId>& list, TensorId id) {
    if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  }

  // Arguments and FLOPs where cost and workspaces need them.
  void Describe(Op& op, const Node& node, const Operator* table) {
    if (table == nullptr) return;
    const Node& forward = node.gradient_of < 0 ? node : symbol_.node(node.gradient_of);
    if (table->name == "Convolution") {
      const std::size_t axes = symbol_.shape(forward.inputs[0]).size() - 2;
      const auto per_axis = [&](const char* attribute, std::int64_t otherwise) {
        const Dims values = TupleOf(forward, attribute, {}).value_or(Dims{});
        return values.empty() ? Dims(axes, otherwise) : values;
      };
      if (node.gradient_of >= 0) op.arguments.push_back({"grad", At(node.inputs[0])});
      op.arguments.push_back({"input", At(forward.inputs[0])});
      op.arguments.push_back({"weight", At(forward.inputs[1])});
      if (node.gradient_of < 0 && forward.inputs.size() > 2) op.arguments.push_back({"bias", At(forward.inputs[2])});
      op.arguments.push_back({"stride", per_axis("stride", 1)});
      op.arguments.push_back({"padding", per_axis("pad", 0)});
      op.arguments.push_back({"dilation", per_axis("dilate", 1)});
      op.arguments.push_back({"groups", IntegerOf(forward, "num_group", 1).value_or(1)});
      op.flops = CountFlops(graph_, op);
      op.arguments.push_back(
          {"workspace_limit_mib", IntegerOf(forward, "workspace", kWorkspaceMiB).value_or(kWorkspaceMiB)});
    } else if (table->name == "RNN") {
      const Dims& input = symbol_.shape(forward.inputs[0]);
      const std::string mode = forward.Text("mode");
      op.arguments.push_back({"input_shape", input});
      op.arguments.push_back({"mode", mode});
      op.arguments.push_back({"hidden_size", IntegerOf(forward, "state_size", 1).value_or(1)});
      op.arguments.push_back({"num_layers", IntegerOf(forward, "num_layers", 1).value_or(1)});
      op.arguments.push_back({"bidirectional", FlagOf(forward, "bidirectional", false).value_or(false)});
    } else if (table->name == "FullyConnected") {
      const Dims& weight = symbol_.shape(forward.inputs[1]);
      const std::int64_t rows = *ElementCount(forward.shapes[0]) / weight[0];
      op.flops = ElementCount({node.gradient_of < 0 ? 2 : 4, rows, weight[0], weight[1]}).value_or(0);
    }
  }

  void Update(const Optimizer& optimizer, Entry parameter, TensorId gradient) {
    Op op{.kind = std::string(optimizer.kind),
          .phase = Phase::kUpdate,
          .layer = symbol_.node(parameter.node).name,
          .inputs = {At(parameter), gradient},
          .outputs = {},
          .mutated = {At(parameter)},
          .schema = "mxnet::" + std::string(optimizer.op),
          .arguments = {}};
    for (int i = 0; i < optimizer.states; ++i) {
      const std::string name = symbol_.node(parameter.node).name + ".state" + std::to_string(i);
      const TensorId state = NewStorage(StorageKind::kOptimizerState, name, symbol_.shape(parameter));
      op.inputs.push_back(state);
      op.mutated.push_back(state);
    }
    graph_.ops.push_back(std::move(op));
  }

  // What forward makes and backward reads is an activation.
  void SortKinds() {
    std::vector<bool> is_forward(graph_.storages.size());
    for (const Op& op : graph_.ops) {
      for (const TensorId id : op.phase == Phase::kForward ? op.outputs : op.inputs) {
        Storage& storage = graph_.storages[graph_.tensor(id).storage.index()];
        if (op.phase == Phase::kForward)
          is_forward[graph_.tensor(id).storage.index()] = true;
        else if (storage.kind == StorageKind::kTemporary && is_forward[graph_.tensor(id).storage.index()])
          storage.kind = StorageKind::kActivation;
      }
    }
  }

  static constexpr std::int64_t kWorkspaceMiB = 1024;

  const Symbol& symbol_;
  const std::vector<Role>& roles_;
  TrainingGraph graph_;
  std::vector<std::vector<TensorId>> tensors_;  // by node and output
  std::map<Entry, std::size_t> gradients_;      // heads that are gradients of parameters
};

}  // namespace

Status CheckOptions(const ModelOptions& options) {
  if (options.autocast)
    return Fail("--autocast: of no use with MXNet, whose graph says what is computed in which type");
  if (!options.freeze.empty() || options.lora) return Fail("--freeze, --lora: not modelled for MXNet");
  if (options.accumulate > 1) return Fail("--accumulate: not modelled for MXNet");
  if (options.checkpoint) return Fail("--checkpoint: not modelled for MXNet");
  return {};
}

Result<TrainingGraph> LowerSymbol(Symbol symbol, const std::vector<Role>& roles, const ModelOptions& options) {
  EBB_RETURN_IF_ERROR(CheckOptions(options));
  const auto* optimizer = std::find_if(kOptimizers.begin(), kOptimizers.end(),
                                       [&](const auto& row) { return row.name == options.optimizer; });
  if (optimizer == kOptimizers.end()) {
    return Fail(
        "--optimizer: expected one that MXNet has: sgd, momentum, adam, adamw, rmsprop, adagrad or none; found {}",
        options.optimizer);
  }
  const std::size_t heads = symbol.heads.size();
  std::vector<int> trained;
  for (const int node : ExecutionOrder(symbol)) {
    if (!symbol.node(node).is_variable()) continue;
    if (symbol.node(node).shapes.empty())
      return Fail("{}: its shape is not known; expected a __shape__ attribute", Describe(symbol, node));
    if (roles[static_cast<std::size_t>(node)] == Role::kParameter) trained.push_back(node);
  }
  if (options.inference) trained.clear();
  if (!options.inference) EBB_RETURN_IF_ERROR(AddGradient(symbol, trained));
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph, Lowering(symbol, roles).Lower(heads, trained, *optimizer));
  graph.framework = Framework::kMxnet;
  graph.meta["framework"] = "mxnet";
  graph.meta["device"] = "cuda";
  graph.meta["batch_size"] = std::to_string(options.batch_size);
  graph.meta["optimizer"] = options.optimizer;
  return graph;
}

}  // namespace ebbtide::model::mxnet
