// A rule for each ATen op of the built-in models.
#include "model/tensorflow/translate.h"

#include <algorithm>
#include <unordered_map>

#include "graph/place.h"
#include "model/forward_reader.h"
#include "model/tensorflow/flat_builder.h"

namespace ebbtide::model::tensorflow {
namespace {

using Ints = std::vector<std::int64_t>;

class Translator : private ForwardReader {
 public:
  explicit Translator(const TrainingGraph& graph)
      : ForwardReader(graph), build_(made_.flat), values_(graph.tensors.size(), kNone) {}

  Result<Translation> Run() {
    for (std::size_t i = 0; i < graph_.ops.size() && made_.loss == kNone; ++i) {
      const Op& op = graph_.ops[i];
      if (op.phase != Phase::kForward) break;
      build_.At(op.layer.empty() ? op.kind : op.layer);
      Status status = Translate(op);
      if (status && build_.error()) status = tl::unexpected(*build_.error());
      if (!status) return Within(PlaceOf(graph_, OpId(i)), status.error());
    }
    if (made_.loss != kNone) {
      made_.flat.results = {made_.loss};
    } else {
      for (const TensorId id : graph_.outputs) made_.flat.results.push_back(At(id));
    }
    return std::move(made_);
  }

 private:
  using Rule = Status (Translator::*)(const Op&);

  // ---- Reading the op.
  ValueId At(TensorId id) {
    ValueId& value = values_[id.index()];
    if (value == kNone) value = Source(id, graph_.tensor(id).shape);
    return value;
  }
  // What exists before the step, under a shape of TensorFlow's.
  ValueId Source(TensorId id, Dims shape) {
    const Storage& storage = graph_.storage_of(id);
    const DType dtype = graph_.tensor(id).dtype;
    if (storage.kind == StorageKind::kInput) return build_.Input(storage.name, dtype, std::move(shape));
    return build_.Read({.name = storage.name,
                        .dtype = dtype,
                        .shape = std::move(shape),
                        .is_trainable = storage.kind == StorageKind::kParameter});
  }
  ValueId In(const Op& op, std::string_view name) {
    const TensorId id = TensorArgument(op, name);
    return id.valid() ? At(id) : kNone;
  }
  static Dims PerAxis(const Op& op, std::string_view name, std::int64_t otherwise) {
    const Dims* values = ArgumentAs<Dims>(op, name);
    if (values == nullptr || values->empty()) return {otherwise, otherwise};
    return values->size() == 1 ? Dims{(*values)[0], (*values)[0]} : *values;
  }

  // ---- Writing nodes.
  Status Yield(const Op& op, ValueId value) {
    if (value != kNone && build_.Shape(value) != OutputShape(op))
      return Fail("TensorFlow has no {} with such windows or sizes", op.kind);
    values_[op.outputs[0].index()] = value;
    return {};
  }
  ValueId Make(const char* name, std::vector<ValueId> inputs, Attributes attributes = {}) {
    return build_.Make(name, std::move(inputs), std::move(attributes));
  }
  ValueId Reshaped(ValueId from, const Dims& shape) { return Make("Reshape", {from, build_.Integers(shape)}); }
  static std::pair<std::string, Attribute> Planar() { return {"data_format", Attribute(std::string("NCHW"))}; }
  static std::pair<std::string, Attribute> Of(const char* name, const Dims& values) {
    return {name, Attribute(Ints{1, 1, values[0], values[1]})};
  }
  // The same at both ends.
  static void AddPadding(const Dims& padding, Attributes& attributes) {
    attributes.push_back({"padding", Attribute(std::string("EXPLICIT"))});
    attributes.push_back(
        {"explicit_paddings", Attribute(Ints{0, 0, 0, 0, padding[0], padding[0], padding[1], padding[1]})});
  }

  // ---- Rules.
  Status Convolution(const Op& op) {
    const bool* transposed = ArgumentAs<bool>(op, "transposed");
    const TensorId matrix = TensorArgument(op, "weight");
    const Dims weight = graph_.tensor(matrix).shape;
    if (weight.size() != 4 || (transposed != nullptr && *transposed))
      return Fail("only plain convolutions of images are translated to TensorFlow");
    const std::int64_t groups = IntegerArgument(op, "groups", 1), channels = ShapeOf(op, "input")[1];
    const bool is_depthwise = groups > 1 && groups == channels;
    ValueId& filter = values_[matrix.index()];
    if (filter == kNone) {
      filter = Source(matrix, is_depthwise ? Dims{weight[2], weight[3], channels, weight[0] / channels}
                                           : Dims{weight[2], weight[3], weight[1], weight[0]});
    }
    Attributes attributes = {Planar(), Of("strides", PerAxis(op, "stride", 1)),
                             Of("dilations", PerAxis(op, "dilation", 1))};
    AddPadding(PerAxis(op, "padding", 0), attributes);
    ValueId result = Make(is_depthwise ? "DepthwiseConv2dNative" : "Conv2D", {In(op, "input"), filter}, attributes);
    if (Has(op, "bias")) result = Make("BiasAdd", {result, In(op, "bias")}, {Planar()});
    return Yield(op, result);
  }

  Status BatchNorm(const Op& op) {
    return Yield(
        op, Make("FusedBatchNormV3",
                 {In(op, "input"), In(op, "weight"), In(op, "bias"), In(op, "running_mean"), In(op, "running_var")},
                 {Planar()}));
  }
  // As Keras writes it out.
  Status LayerNorm(const Op& op) {
    if (!Has(op, "weight") || !Has(op, "bias"))
      return Fail("a layer norm without weights is not translated to TensorFlow");
    const ValueId x = In(op, "input");
    const auto mean = [&](ValueId of) {
      return Make("Mean", {of, build_.Integers({-1})}, {{"keep_dims", Attribute(true)}});
    };
    const ValueId center = mean(x);
    const ValueId variance = mean(Make("SquaredDifference", {x, Make("StopGradient", {center})}));
    const ValueId scale =
        Make("Mul", {Make("Rsqrt", {Make("AddV2", {variance, build_.Real(1e-5)})}), In(op, "weight")});
    const ValueId offset = Make("Sub", {In(op, "bias"), Make("Mul", {center, scale})});
    return Yield(op, Make("AddV2", {Make("Mul", {x, scale}), offset}));
  }
  Status Activation(const Op& op) {
    static const std::unordered_map<std::string_view, const char*> names = {
        {"relu", "Relu"},       {"relu_", "Relu"},       {"hardtanh", "Relu6"}, {"hardtanh_", "Relu6"},
        {"sigmoid", "Sigmoid"}, {"sigmoid_", "Sigmoid"}, {"tanh", "Tanh"},      {"_softmax", "Softmax"},
    };
    return Yield(op, Make(names.at(op.kind), {At(op.inputs[0])}));
  }
  Status Gelu(const Op& op) {
    const ValueId x = At(op.inputs[0]);
    return Yield(
        op, Make("Mul", {Make("Mul", {x, build_.Real(0.5)}), Make("Erfc", {Make("Mul", {x, build_.Real(-0.7)})})}));
  }
  Status Silu(const Op& op) {
    const ValueId x = At(op.inputs[0]);
    return Yield(op, Make("Mul", {x, Make("Sigmoid", {x})}));
  }
  ValueId HardSigmoidOf(ValueId x) {
    return Make("Mul", {Make("Relu6", {Make("AddV2", {x, build_.Real(3)})}), build_.Real(1.0 / 6)});
  }
  Status HardSigmoid(const Op& op) { return Yield(op, HardSigmoidOf(At(op.inputs[0]))); }
  Status HardSwish(const Op& op) {
    const ValueId x = At(op.inputs[0]);
    return Yield(op, Make("Mul", {x, HardSigmoidOf(x)}));
  }

  Status Pooling(const Op& op) {
    const Dims kernel = PerAxis(op, "kernel_size", 1), padding = PerAxis(op, "padding", 0);
    const Dims* given = ArgumentAs<Dims>(op, "stride");
    const Dims stride = given != nullptr && !given->empty() ? PerAxis(op, "stride", 1) : kernel;
    Attributes attributes = {Planar(), Of("ksize", kernel), Of("strides", stride)};
    const bool is_max = op.kind.starts_with("max");
    if (is_max) {
      AddPadding(padding, attributes);
    } else {
      const bool pads = padding[0] + padding[1] > 0;
      attributes.push_back({"padding", Attribute(std::string(pads ? "SAME" : "VALID"))});
    }
    return Yield(op, Make(is_max ? "MaxPool" : "AvgPool", {At(op.inputs[0])}, std::move(attributes)));
  }
  // TensorFlow's models have none where torchvision's change nothing.
  Status AdaptivePooling(const Op& op) {
    const Dims &in = ShapeOf(op, "self"), &out = OutputShape(op);
    if (in == out) return Yield(op, At(op.inputs[0]));
    if (out[2] < 1 || out[3] < 1 || in[2] % out[2] != 0 || in[3] % out[3] != 0)
      return Fail("TensorFlow pools by whole windows: expected sizes that divide");
    const Dims kernel = {in[2] / out[2], in[3] / out[3]};
    return Yield(op, Make("AvgPool", {At(op.inputs[0])}, {Planar(), Of("ksize", kernel), Of("strides", kernel)}));
  }
  Status Mean(const Op& op) {
    const Dims* over = ArgumentAs<Dims>(op, "dim");
    const bool* keeps = ArgumentAs<bool>(op, "keepdim");
    Dims axes = over != nullptr ? *over : Dims{};
    for (std::size_t i = 0; over == nullptr && i < ShapeOf(op, "self").size(); ++i)
      axes.push_back(static_cast<std::int64_t>(i));
    return Yield(op, Make("Mean", {At(op.inputs[0]), build_.Integers(std::move(axes))},
                          {{"keep_dims", Attribute(keeps != nullptr && *keeps)}}));
  }

  Status Product(const Op& op) {
    const bool has_bias = op.kind == "addmm";
    const ValueId product = Make("MatMul", {In(op, has_bias ? "mat1" : "self"), In(op, "mat2")});
    return Yield(op, has_bias ? Make("BiasAdd", {product, In(op, "self")}) : product);
  }
  // TensorFlow keeps weights as [inputs, outputs].
  Status TransposedWeight(const Op& op) {
    const TensorId from = op.inputs[0];
    if (graph_.storage_of(from).kind != StorageKind::kParameter || values_[from.index()] != kNone) return Turned(op);
    return Yield(op, Source(from, OutputShape(op)));
  }

  Status View(const Op& op) {
    const ValueId from = At(op.inputs[0]);
    return Yield(op, OutputShape(op) == build_.Shape(from) ? from : Reshaped(from, OutputShape(op)));
  }
  Status Expand(const Op& op) {
    const ValueId from = At(op.inputs[0]);
    if (OutputShape(op) == build_.Shape(from)) return Yield(op, from);
    return Yield(op, Make("BroadcastTo", {from, build_.Integers(OutputShape(op))}));
  }
  Status Turned(const Op& op) {
    return Yield(op, Make("Transpose", {At(op.inputs[0]), build_.Integers(AxisOrder(op, OutputShape(op).size()))}));
  }
  Status Slice(const Op& op) {
    const Dims &in = ShapeOf(op, "self"), &out = OutputShape(op);
    if (in == out) return Yield(op, At(op.inputs[0]));
    Dims begin(in.size());
    std::int64_t axis = IntegerArgument(op, "dim", 0), start = IntegerArgument(op, "start", 0);
    if (axis < 0) axis += static_cast<std::int64_t>(in.size());
    if (start < 0) start += in[static_cast<std::size_t>(axis)];
    begin[static_cast<std::size_t>(axis)] = start;
    return Yield(op, Make("Slice", {At(op.inputs[0]), build_.Integers(std::move(begin)), build_.Integers(out)}));
  }
  Status Concat(const Op& op) {
    const TensorList* list = ArgumentAs<TensorList>(op, "tensors");
    std::vector<ValueId> inputs;
    for (const TensorId id : list->ids) inputs.push_back(At(id));
    if (inputs.size() == 1) return Yield(op, inputs[0]);
    inputs.push_back(build_.Integer(IntegerArgument(op, "dim", 0)));
    return Yield(op, Make("ConcatV2", std::move(inputs)));
  }
  Status Split(const Op& op) {
    const std::vector<ValueId> parts =
        build_.MakeAll("Split", {build_.Integer(IntegerArgument(op, "dim", 0)), At(op.inputs[0])},
                       {{"num_split", Attribute(static_cast<std::int64_t>(op.outputs.size()))}});
    for (std::size_t i = 0; i < parts.size(); ++i) values_[op.outputs[i].index()] = parts[i];
    return {};
  }

  // Of two tensors, or with a number.
  Status Combine(const Op& op) {
    const char* name = op.kind.starts_with("add")   ? "AddV2"
                       : op.kind.starts_with("mul") ? "Mul"
                       : op.kind.starts_with("sub") ? "Sub"
                       : op.kind.starts_with("div") ? "RealDiv"
                                                    : "Pow";
    const ValueId other = Has(op, "other") ? In(op, "other") : build_.Real(2);
    return Yield(op, Make(name, {At(op.inputs[0]), other}));
  }

  // As Keras: what is kept is a truth for each element.
  ValueId Dropped(ValueId x) {
    const ValueId noise = Make("RandomUniform", {build_.Integers(build_.Shape(x))});
    const ValueId keeps = Make("GreaterEqual", {noise, build_.Real(0.1)});
    return Make("SelectV2", {keeps, Make("Mul", {x, build_.Real(1.1)}), build_.Real(0)});
  }
  Status Dropout(const Op& op) { return Yield(op, Dropped(At(op.inputs[0]))); }

  Status Embedding(const Op& op) {
    const ValueId weight = In(op, "weight");
    const int variable = made_.flat.value(weight).variable;
    if (variable == kNone) return Fail("an embedding of what was computed is not translated to TensorFlow");
    return Yield(op, Make("ResourceGather", {build_.Handle(variable), In(op, "indices")}));
  }
  Status Zeros(const Op& op) {
    const ValueId zero = IsFloating(graph_.tensor(op.outputs[0]).dtype) ? build_.Real(0) : build_.Integer(0);
    return Yield(op, Make("Fill", {build_.Integers(OutputShape(op)), zero}));
  }

  // The weights of all layers are one vector.
  Status Recurrent(const Op& op) {
    const ValueId all = build_.Read({.name = op.layer + ".parameters", .shape = {RecurrentWeights(op)}});
    const std::int64_t batch = ShapeOf(op, "input")[1];
    const ValueId lengths = Make("Fill", {build_.Integers({batch}), build_.Integer(0)});
    return Yield(op, Make("CudnnRNNV3", {In(op, "input"), In(op, "hx"), In(op, "cx"), all, lengths}));
  }

  // By parts, as Keras does.
  Status Attention(const Op& op) {
    if (ShapeOf(op, "query")[1] != ShapeOf(op, "key")[1])
      return Fail("heads that share keys are not translated to TensorFlow");
    const ValueId scaled = Make("Mul", {In(op, "query"), build_.Real(0.125)});
    ValueId scores = Make("BatchMatMulV2", {scaled, In(op, "key")}, {{"adj_y", Attribute(true)}});
    if (Has(op, "attn_bias")) scores = Make("AddV2", {scores, In(op, "attn_bias")});
    scores = Make("Softmax", {scores});
    const double* dropout = ArgumentAs<double>(op, "dropout_p");
    if (dropout != nullptr && *dropout > 0) scores = Dropped(scores);
    return Yield(op, Make("BatchMatMulV2", {scores, In(op, "value")}));
  }

  // Softmax and its loss are one operator.
  Status Same(const Op& op) { return Yield(op, At(op.inputs[0])); }
  Status NegativeLogLikelihood(const Op& op) {
    const ValueId each = Make("SparseSoftmaxCrossEntropyWithLogits", {At(op.inputs[0]), In(op, "target")});
    made_.loss = Make("Mean", {each, build_.Integers({0})});
    return {};
  }

  Status Translate(const Op& op) {
    static const std::unordered_map<std::string_view, Rule> rules = {
        {"convolution", &Translator::Convolution},
        {"cudnn_batch_norm", &Translator::BatchNorm},
        {"native_layer_norm", &Translator::LayerNorm},
        {"relu", &Translator::Activation},
        {"relu_", &Translator::Activation},
        {"sigmoid", &Translator::Activation},
        {"sigmoid_", &Translator::Activation},
        {"tanh", &Translator::Activation},
        {"_softmax", &Translator::Activation},
        {"hardtanh", &Translator::Activation},
        {"hardtanh_", &Translator::Activation},
        {"gelu", &Translator::Gelu},
        {"silu", &Translator::Silu},
        {"silu_", &Translator::Silu},
        {"hardsigmoid", &Translator::HardSigmoid},
        {"hardswish", &Translator::HardSwish},
        {"hardswish_", &Translator::HardSwish},
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
        {"expand", &Translator::Expand},
        {"clone", &Translator::Same},
        {"transpose", &Translator::Turned},
        {"permute", &Translator::Turned},
        {"slice", &Translator::Slice},
        {"cat", &Translator::Concat},
        {"split", &Translator::Split},
        {"add", &Translator::Combine},
        {"add_", &Translator::Combine},
        {"sub", &Translator::Combine},
        {"mul", &Translator::Combine},
        {"mul_", &Translator::Combine},
        {"div", &Translator::Combine},
        {"pow", &Translator::Combine},
        {"native_dropout", &Translator::Dropout},
        {"embedding", &Translator::Embedding},
        {"zeros", &Translator::Zeros},
        {"arange", &Translator::Zeros},
        {"gather", &Translator::Zeros},
        {"_cudnn_rnn", &Translator::Recurrent},
        {"_scaled_dot_product_flash_attention", &Translator::Attention},
        {"_scaled_dot_product_efficient_attention", &Translator::Attention},
        {"_log_softmax", &Translator::Same},
        {"nll_loss_forward", &Translator::NegativeLogLikelihood},
    };
    const auto rule = rules.find(op.kind);
    if (rule == rules.end())
      return Fail("{} is not translated to TensorFlow; expected a model of its usual operators", op.kind);
    return (this->*rule->second)(op);
  }

  Translation made_;
  FlatBuilder build_;
  std::vector<ValueId> values_;  // by tensor
};

}  // namespace

Result<Translation> TranslateForward(const TrainingGraph& graph) { return Translator(graph).Run(); }

}  // namespace ebbtide::model::tensorflow
