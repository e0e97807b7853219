// A rule for each ATen op of the built-in models.
#include "model/mxnet/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "graph/place.h"
#include "model/forward_reader.h"
#include "model/mxnet/lower.h"
#include "model/mxnet/mxnet.h"
#include "model/mxnet/shapes.h"

namespace ebbtide::model::mxnet {
namespace {

constexpr Entry kNone = {-1, 0};
using Attributes = std::vector<std::pair<std::string, std::string>>;

class Translator : private ForwardReader {
 public:
  explicit Translator(const TrainingGraph& graph) : ForwardReader(graph), entries_(graph.tensors.size(), kNone) {}

  Result<Translation> Run() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      if (op.phase != Phase::kForward) break;
      if (const Status status = Translate(op); !status) return Within(PlaceOf(graph_, OpId(i)), status.error());
    }
    if (loss_ != kNone) {
      made_.symbol.heads = {loss_};
    } else {
      for (const TensorId id : graph_.outputs) made_.symbol.heads.push_back(At(id));
    }
    if (made_.symbol.heads.empty()) return Fail("{}: has no outputs", graph_.name);
    return std::move(made_);
  }

 private:
  using Rule = Status (Translator::*)(const Op&);

  // ---- Reading the op.
  Entry At(TensorId id) {
    Entry& entry = entries_[id.index()];
    if (entry == kNone) entry = Variable(graph_.storage_of(id), graph_.tensor(id).shape);
    return entry;
  }
  Entry In(const Op& op, std::string_view name) {
    const TensorId id = TensorArgument(op, name);
    return id.valid() ? At(id) : kNone;
  }
  static std::string List(const Op& op, std::string_view name) {
    const Dims* values = ArgumentAs<Dims>(op, name);
    return values ? TupleText(*values) : "()";
  }

  // ---- Writing nodes.
  Entry Variable(const Storage& storage, const Dims& shape) {
    const Role role = storage.kind == StorageKind::kBuffer  ? Role::kBuffer
                      : storage.kind == StorageKind::kInput ? Role::kInput
                                                            : Role::kParameter;
    return Add({.name = storage.name.empty() ? "variable" : storage.name, .shapes = {shape.empty() ? Dims{1} : shape}},
               role);
  }
  Entry Add(Node node, Role role = Role::kParameter) {
    made_.symbol.nodes.push_back(std::move(node));
    made_.roles.push_back(role);
    return {static_cast<int>(made_.symbol.nodes.size()) - 1, 0};
  }
  Entry Make(const Op& op, std::string name, std::vector<Entry> inputs, Attributes attributes = {}) {
    return Add({.op = std::move(name),
                .name = op.layer.empty() ? op.kind : op.layer,
                .attributes = std::move(attributes),
                .inputs = std::move(inputs)});
  }
  Status Yield(const Op& op, Entry entry) {
    entries_[op.outputs[0].index()] = entry;
    return {};
  }
  Entry Reshaped(const Op& op, Entry from, const Dims& shape) {
    return Make(op, "Reshape", {from}, {{"shape", TupleText(shape.empty() ? Dims{1} : shape)}});
  }

  // ---- Rules.
  Status Convolution(const Op& op) {
    const bool* transposed = ArgumentAs<bool>(op, "transposed");
    if (transposed != nullptr && *transposed) return Fail("transposed convolutions are not translated to MXNet");
    const Dims weight = ShapeOf(op, "weight");
    const Entry bias = In(op, "bias");
    std::vector<Entry> inputs = {In(op, "input"), In(op, "weight")};
    if (bias != kNone) inputs.push_back(bias);
    const auto per_axis = [&](const char* name) {
      const Dims* values = ArgumentAs<Dims>(op, name);
      Dims all = values ? *values : Dims{};
      if (all.size() == 1) all.resize(weight.size() - 2, all[0]);
      return TupleText(all);
    };
    return Yield(op, Make(op, "Convolution", inputs,
                          {{"kernel", TupleText({weight.begin() + 2, weight.end()})},
                           {"stride", per_axis("stride")},
                           {"pad", per_axis("padding")},
                           {"dilate", per_axis("dilation")},
                           {"num_filter", std::to_string(weight[0])},
                           {"num_group", std::to_string(IntegerArgument(op, "groups", 1))},
                           {"no_bias", bias == kNone ? "True" : "False"}}));
  }

  Status BatchNorm(const Op& op) {
    return Yield(
        op, Make(op, "BatchNorm",
                 {In(op, "input"), In(op, "weight"), In(op, "bias"), In(op, "running_mean"), In(op, "running_var")}));
  }
  Status LayerNorm(const Op& op) {
    const Dims* over = ArgumentAs<Dims>(op, "normalized_shape");
    if (over == nullptr || over->size() != 1 || In(op, "bias") == kNone)
      return Fail("MXNet normalises over one axis, with a bias");
    return Yield(op, Make(op, "LayerNorm", {In(op, "input"), In(op, "weight"), In(op, "bias")}));
  }
  Status Activation(const Op& op) {
    std::string type = op.kind.ends_with('_') ? op.kind.substr(0, op.kind.size() - 1) : op.kind;
    return Yield(op, Make(op, "Activation", {At(op.inputs[0])}, {{"act_type", type}}));
  }
  Status Clip(const Op& op) { return Yield(op, Make(op, "clip", {At(op.inputs[0])})); }
  Status Gelu(const Op& op) { return Yield(op, Make(op, "LeakyReLU", {At(op.inputs[0])}, {{"act_type", "gelu"}})); }
  Status Silu(const Op& op) {
    const Entry x = At(op.inputs[0]);
    return Yield(op, Make(op, "elemwise_mul", {x, Make(op, "Activation", {x}, {{"act_type", "sigmoid"}})}));
  }

  Status Pooling(const Op& op) {
    const bool* ceil_mode = ArgumentAs<bool>(op, "ceil_mode");
    const Dims* stride = ArgumentAs<Dims>(op, "stride");
    return Yield(op, Make(op, "Pooling", {At(op.inputs[0])},
                          {{"pool_type", op.kind.starts_with("max") ? "max" : "avg"},
                           {"kernel", List(op, "kernel_size")},
                           {"stride", List(op, stride != nullptr && !stride->empty() ? "stride" : "kernel_size")},
                           {"pad", List(op, "padding")},
                           {"pooling_convention", ceil_mode != nullptr && *ceil_mode ? "full" : "valid"}}));
  }
  // MXNet's models have none where torchvision's change nothing.
  Status AdaptivePooling(const Op& op) {
    const Dims &in = ShapeOf(op, "self"), &out = OutputShape(op);
    if (in == out) return Yield(op, At(op.inputs[0]));
    if (in[2] % out[2] != 0 || in[3] % out[3] != 0)
      return Fail("MXNet pools by whole windows: expected sizes that divide");
    const std::string kernel = TupleText({in[2] / out[2], in[3] / out[3]});
    return Yield(
        op, Make(op, "Pooling", {At(op.inputs[0])}, {{"pool_type", "avg"}, {"kernel", kernel}, {"stride", kernel}}));
  }
  Status Mean(const Op& op) {
    const Dims& in = ShapeOf(op, "self");
    const Dims* over = ArgumentAs<Dims>(op, "dim");
    const std::int64_t rank = static_cast<std::int64_t>(in.size());
    const bool is_image = over != nullptr && rank == 4 && over->size() == 2 &&
                          std::all_of(over->begin(), over->end(), [&](auto axis) { return (axis + rank) % rank >= 2; });
    if (!is_image) return Fail("means of other axes than those of images are not translated to MXNet");
    Entry pooled =
        Make(op, "Pooling", {At(op.inputs[0])}, {{"pool_type", "avg"}, {"global_pool", "True"}, {"kernel", "(1, 1)"}});
    if (OutputShape(op).size() == 2) pooled = Make(op, "Flatten", {pooled});
    return Yield(op, pooled);
  }

  // Of a product with a weight, which MXNet keeps as [outputs, inputs].
  Status Product(const Op& op) {
    const bool has_bias = op.kind == "addmm";
    const Entry x = In(op, has_bias ? "mat1" : "self");
    const TensorId matrix = TensorArgument(op, "mat2");
    const Entry weight = At(matrix);
    const std::int64_t outputs = OutputShape(op)[1];
    Node& variable = made_.symbol.node(weight.node);
    if (!variable.is_variable()) return Fail("products of two results are not translated to MXNet");
    variable.shapes = {{outputs, graph_.tensor(matrix).shape[0]}};
    std::vector<Entry> inputs = {x, weight};
    if (has_bias) inputs.push_back(In(op, "self"));
    return Yield(op, Make(op, "FullyConnected", inputs,
                          {{"num_hidden", std::to_string(outputs)},
                           {"no_bias", has_bias ? "False" : "True"},
                           {"flatten", "False"}}));
  }
  Status TransposedWeight(const Op& op) {
    const Entry from = At(op.inputs[0]);
    if (!made_.symbol.node(from.node).is_variable()) return Turned(op);
    return Yield(op, from);
  }

  Status View(const Op& op) {
    const Entry from = At(op.inputs[0]);
    const bool is_same = OutputShape(op) == graph_.tensor(op.inputs[0]).shape;
    return Yield(op, is_same ? from : Reshaped(op, from, OutputShape(op)));
  }
  Status Same(const Op& op) { return Yield(op, At(op.inputs[0])); }
  Status Turned(const Op& op) {
    return Yield(
        op, Make(op, "transpose", {At(op.inputs[0])}, {{"axes", TupleText(AxisOrder(op, OutputShape(op).size()))}}));
  }
  Status Slice(const Op& op) {
    return Yield(op,
                 Make(op, "slice_axis", {At(op.inputs[0])},
                      {{"axis", std::to_string(IntegerArgument(op, "dim", 0))},
                       {"begin", std::to_string(IntegerArgument(op, "start", 0))},
                       {"end", std::to_string(std::min<std::int64_t>(
                                   IntegerArgument(op, "end", 0),
                                   ShapeOf(op, "self")[static_cast<std::size_t>(IntegerArgument(op, "dim", 0))]))}}));
  }
  Status Concat(const Op& op) {
    const TensorList* list = ArgumentAs<TensorList>(op, "tensors");
    std::vector<Entry> inputs;
    for (const TensorId id : list->ids) inputs.push_back(At(id));
    if (inputs.size() == 1) return Yield(op, inputs[0]);
    return Yield(op, Make(op, "Concat", inputs, {{"dim", std::to_string(IntegerArgument(op, "dim", 0))}}));
  }

  // Of two tensors, or with a number.
  Status Combine(const Op& op) {
    const bool adds = op.kind.starts_with("add");
    const TensorId other = TensorArgument(op, "other");
    const Entry x = At(op.inputs[0]);
    if (!other.valid()) return Yield(op, Make(op, adds ? "_plus_scalar" : "_mul_scalar", {x}));
    const Dims &one = ShapeOf(op, "self"), &two = graph_.tensor(other).shape;
    if (one == two) return Yield(op, Make(op, adds ? "elemwise_add" : "elemwise_mul", {x, At(other)}));
    const std::size_t rank = OutputShape(op).size();
    const auto widened = [&](Entry entry, Dims shape) {
      if (shape.size() == rank) return entry;
      shape.insert(shape.begin(), rank - shape.size(), 1);
      return Reshaped(op, entry, shape);
    };
    return Yield(op, Make(op, adds ? "broadcast_add" : "broadcast_mul", {widened(x, one), widened(At(other), two)}));
  }

  Status Dropout(const Op& op) { return Yield(op, Make(op, "Dropout", {At(op.inputs[0])})); }
  Status Embedding(const Op& op) {
    const Dims& weight = ShapeOf(op, "weight");
    return Yield(op, Make(op, "Embedding", {In(op, "indices"), In(op, "weight")},
                          {{"input_dim", std::to_string(weight[0])}, {"output_dim", std::to_string(weight[1])}}));
  }
  Status Zeros(const Op& op) {
    return Yield(op,
                 Make(op, "_zeros", {}, {{"shape", TupleText(OutputShape(op).empty() ? Dims{1} : OutputShape(op))}}));
  }

  // The weights of all layers are one vector.
  Status Recurrent(const Op& op) {
    const Entry all = Add({.name = op.layer + ".parameters", .shapes = {{RecurrentWeights(op)}}});
    return Yield(op, Make(op, "RNN", {In(op, "input"), all, In(op, "hx"), In(op, "cx")},
                          {{"mode", "lstm"},
                           {"state_size", std::to_string(OutputShape(op).back())},
                           {"num_layers", std::to_string(ShapeOf(op, "hx")[0])}}));
  }

  // By parts: MXNet has no fused kernel for it.
  Status Attention(const Op& op) {
    const auto flat = [&](const char* name) {
      const Dims& shape = ShapeOf(op, name);
      return Reshaped(op, In(op, name), {shape[0] * shape[1], shape[2], shape[3]});
    };
    if (ShapeOf(op, "query")[1] != ShapeOf(op, "key")[1])
      return Fail("heads that share keys are not translated to MXNet");
    const Entry scaled = Make(op, "_mul_scalar", {flat("query")});
    const Entry scores = Make(op, "softmax", {Make(op, "batch_dot", {scaled, flat("key")}, {{"transpose_b", "True"}})});
    return Yield(op,
                 Reshaped(op, Make(op, "batch_dot", {Make(op, "Dropout", {scores}), flat("value")}), OutputShape(op)));
  }

  // Softmax and its loss are one operator.
  Status LogSoftmax(const Op& op) { return Yield(op, At(op.inputs[0])); }
  Status NegativeLogLikelihood(const Op& op) {
    const Entry loss = Make(op, "SoftmaxOutput", {At(op.inputs[0]), In(op, "target")});
    if (loss_ == kNone) loss_ = loss;
    return Yield(op, loss);
  }

  Status Translate(const Op& op) {
    static const std::unordered_map<std::string_view, Rule> rules = {
        {"convolution", &Translator::Convolution},
        {"cudnn_batch_norm", &Translator::BatchNorm},
        {"native_batch_norm", &Translator::BatchNorm},
        {"native_layer_norm", &Translator::LayerNorm},
        {"relu", &Translator::Activation},
        {"relu_", &Translator::Activation},
        {"sigmoid", &Translator::Activation},
        {"sigmoid_", &Translator::Activation},
        {"tanh", &Translator::Activation},
        {"hardtanh", &Translator::Clip},
        {"hardtanh_", &Translator::Clip},
        {"gelu", &Translator::Gelu},
        {"silu", &Translator::Silu},
        {"silu_", &Translator::Silu},
        {"max_pool2d_with_indices", &Translator::Pooling},
        {"avg_pool2d", &Translator::Pooling},
        {"_adaptive_avg_pool2d", &Translator::AdaptivePooling},
        {"mean", &Translator::Mean},
        {"addmm", &Translator::Product},
        {"mm", &Translator::Product},
        {"t", &Translator::TransposedWeight},
        {"view", &Translator::View},
        {"_unsafe_view", &Translator::View},
        {"unsqueeze", &Translator::View},
        {"squeeze", &Translator::View},
        {"clone", &Translator::Same},
        {"transpose", &Translator::Turned},
        {"permute", &Translator::Turned},
        {"slice", &Translator::Slice},
        {"cat", &Translator::Concat},
        {"add", &Translator::Combine},
        {"add_", &Translator::Combine},
        {"mul", &Translator::Combine},
        {"mul_", &Translator::Combine},
        {"native_dropout", &Translator::Dropout},
        {"embedding", &Translator::Embedding},
        {"zeros", &Translator::Zeros},
        {"_cudnn_rnn", &Translator::Recurrent},
        {"_scaled_dot_product_flash_attention", &Translator::Attention},
        {"_scaled_dot_product_efficient_attention", &Translator::Attention},
        {"_log_softmax", &Translator::LogSoftmax},
        {"nll_loss_forward", &Translator::NegativeLogLikelihood},
    };
    const auto rule = rules.find(op.kind);
    if (rule == rules.end()) {
      return Fail("{} is not translated to MXNet; expected a model that MXNet's model zoo has too", op.kind);
    }
    return (this->*rule->second)(op);
  }

  std::vector<Entry> entries_;  // by tensor
  Translation made_;
  Entry loss_ = kNone;
};

}  // namespace

Result<Translation> TranslateForward(const TrainingGraph& graph) { return Translator(graph).Run(); }

Result<TrainingGraph> ConvertModel(const TrainingGraph& graph, const ModelOptions& options) {
  EBB_ASSIGN_OR_RETURN(Translation made, TranslateForward(graph));
  EBB_RETURN_IF_ERROR(InferShapes(made.symbol, options.batch_size));
  EBB_ASSIGN_OR_RETURN(TrainingGraph step, LowerSymbol(std::move(made.symbol), made.roles, options));
  step.name = graph.name;
  step.meta["source"] = "built in";
  return step;
}

}  // namespace ebbtide::model::mxnet
