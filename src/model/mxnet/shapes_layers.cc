// Rules of layers: their outputs, and the shapes of their weights.
#include "base/json_text.h"
#include "model/mxnet/inference.h"

namespace ebbtide::model::mxnet {
namespace {

// A window over the axes behind batch and channels.
struct Window {
  Dims kernel, stride, pad, dilate;
};

Status CheckSizes(const Dims& values, std::size_t axes, std::int64_t least, const char* attribute) {
  if (values.size() != axes)
    return Fail("attribute {}: expected {} numbers, found {}", attribute, axes, TupleText(values));
  for (const std::int64_t value : values) {
    if (value < least) return Fail("attribute {}: expected {} or more, found {}", attribute, least, value);
  }
  return {};
}

Result<Window> WindowOf(const Node& node, std::size_t axes) {
  Window window;
  EBB_ASSIGN_OR_RETURN(window.kernel, TupleOf(node, "kernel", {}));
  EBB_ASSIGN_OR_RETURN(window.stride, TupleOf(node, "stride", {}));
  EBB_ASSIGN_OR_RETURN(window.pad, TupleOf(node, "pad", {}));
  EBB_ASSIGN_OR_RETURN(window.dilate, TupleOf(node, "dilate", {}));
  if (window.stride.empty()) window.stride = Dims(axes, 1);
  if (window.pad.empty()) window.pad = Dims(axes, 0);
  if (window.dilate.empty()) window.dilate = Dims(axes, 1);
  EBB_RETURN_IF_ERROR(CheckSizes(window.kernel, axes, 1, "kernel"));
  EBB_RETURN_IF_ERROR(CheckSizes(window.stride, axes, 1, "stride"));
  EBB_RETURN_IF_ERROR(CheckSizes(window.pad, axes, 0, "pad"));
  EBB_RETURN_IF_ERROR(CheckSizes(window.dilate, axes, 1, "dilate"));
  return window;
}

Result<std::int64_t> Covered(const Window& window, std::size_t axis, std::int64_t size, bool rounds_up) {
  const std::int64_t reach = window.dilate[axis] * (window.kernel[axis] - 1) + 1;
  const std::int64_t room = size + 2 * window.pad[axis] - reach;
  if (room < 0)
    return Fail("a window of {} over {} with padding {}: expected one that fits", reach, size, window.pad[axis]);
  return (room + (rounds_up ? window.stride[axis] - 1 : 0)) / window.stride[axis] + 1;
}

Status CheckLayout(const Node& node) {
  const std::string layout = node.Text("layout", "None");
  if (layout == "None" || layout.starts_with("NC")) return {};
  return Fail("attribute layout: expected channels in front (NCHW), found {}", Quoted(layout.substr(0, 8)));
}

}  // namespace

Status InferConvolution(Inference& at) {
  const Node& node = at.node();
  EBB_RETURN_IF_ERROR(CheckLayout(node));
  EBB_ASSIGN_OR_RETURN(const Dims in, at.In(0, 3));
  EBB_ASSIGN_OR_RETURN(const Window window, WindowOf(node, in.size() - 2));
  EBB_ASSIGN_OR_RETURN(const std::int64_t filters, IntegerOf(node, "num_filter", 0));
  EBB_ASSIGN_OR_RETURN(const std::int64_t groups, IntegerOf(node, "num_group", 1));
  EBB_ASSIGN_OR_RETURN(const bool no_bias, FlagOf(node, "no_bias", false));
  EBB_RETURN_IF_ERROR(at.Expect(no_bias ? 2 : 3, no_bias ? 2 : 3));
  if (filters < 1 || groups < 1 || in[1] % groups != 0 || filters % groups != 0) {
    return Fail("expected num_group that divides {} channels and num_filter, found {} and {}", in[1], groups, filters);
  }
  Dims weight = {filters, in[1] / groups}, out = {in[0], filters};
  for (std::size_t i = 0; i + 2 < in.size(); ++i) {
    weight.push_back(window.kernel[i]);
    EBB_ASSIGN_OR_RETURN(const std::int64_t size, Covered(window, i, in[i + 2], false));
    out.push_back(size);
  }
  EBB_RETURN_IF_ERROR(at.Fill(1, weight));
  if (!no_bias) EBB_RETURN_IF_ERROR(at.Fill(2, {filters}));
  at.Yield(out);
  return {};
}

Status InferFullyConnected(Inference& at) {
  const Node& node = at.node();
  EBB_ASSIGN_OR_RETURN(const Dims in, at.In(0, 1));
  EBB_ASSIGN_OR_RETURN(const std::int64_t hidden, IntegerOf(node, "num_hidden", 0));
  EBB_ASSIGN_OR_RETURN(const bool no_bias, FlagOf(node, "no_bias", false));
  EBB_ASSIGN_OR_RETURN(const bool flattens, FlagOf(node, "flatten", true));
  EBB_RETURN_IF_ERROR(at.Expect(no_bias ? 2 : 3, no_bias ? 2 : 3));
  const std::int64_t features = flattens ? *CountOf(in) / in[0] : in.back();
  EBB_RETURN_IF_ERROR(at.Fill(1, {hidden, features}));
  if (!no_bias) EBB_RETURN_IF_ERROR(at.Fill(2, {hidden}));
  Dims out = flattens ? Dims{in[0], 0} : in;
  out.back() = hidden;
  at.Yield(out);
  return {};
}

// Beside the result, the mean and the spread of each channel (batch) or row (layer).
Status InferNorm(Inference& at, bool is_batch_norm) {
  EBB_RETURN_IF_ERROR(at.Expect(is_batch_norm ? 5 : 3, is_batch_norm ? 5 : 3));
  EBB_ASSIGN_OR_RETURN(const Dims in, at.In(0, 1));
  EBB_ASSIGN_OR_RETURN(std::int64_t axis, IntegerOf(at.node(), "axis", is_batch_norm ? 1 : -1));
  if (axis < 0) axis += static_cast<std::int64_t>(in.size());
  if (axis < 0 || axis >= static_cast<std::int64_t>(in.size()))
    return Fail("attribute axis: expected one of {}", in.size());
  const std::int64_t size = in[static_cast<std::size_t>(axis)];
  for (std::size_t i = 1; i < at.inputs(); ++i) EBB_RETURN_IF_ERROR(at.Fill(i, {size}));
  Dims kept = {size};
  if (!is_batch_norm) {
    kept = in;
    kept[static_cast<std::size_t>(axis)] = 1;
  }
  at.Yield(in);
  at.Yield(kept);
  at.Yield(kept);
  return {};
}

Status InferPooling(Inference& at, bool has_workspace) {
  const Node& node = at.node();
  EBB_RETURN_IF_ERROR(at.Expect(1, 1));
  EBB_RETURN_IF_ERROR(CheckLayout(node));
  EBB_ASSIGN_OR_RETURN(const Dims in, at.In(0, 3));
  EBB_ASSIGN_OR_RETURN(const bool is_global, FlagOf(node, "global_pool", false));
  Dims out = in;
  if (is_global) {
    for (std::size_t i = 2; i < in.size(); ++i) out[i] = 1;
  } else {
    EBB_ASSIGN_OR_RETURN(const Window window, WindowOf(node, in.size() - 2));
    const bool rounds_up = node.Text("pooling_convention", "valid") == "full";
    for (std::size_t i = 2; i < in.size(); ++i) {
      EBB_ASSIGN_OR_RETURN(out[i], Covered(window, i - 2, in[i], rounds_up));
    }
  }
  at.Yield(out);
  if (has_workspace) at.Yield(out);  // where each maximum was
  return {};
}

Status InferEmbedding(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2, 2));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.In(0));
  EBB_ASSIGN_OR_RETURN(const std::int64_t rows, IntegerOf(at.node(), "input_dim", 0));
  EBB_ASSIGN_OR_RETURN(const std::int64_t columns, IntegerOf(at.node(), "output_dim", 0));
  if (shape.size() == kMostAxes) return Fail("expected at most {} axes", kMostAxes);
  EBB_RETURN_IF_ERROR(at.Fill(1, {rows, columns}));
  shape.push_back(columns);
  at.Yield(shape);
  return {};
}

// Data [length, batch, features]; all weights in one vector, layer by layer; states [layers x directions, batch, size].
Status InferRecurrent(Inference& at) {
  const Node& node = at.node();
  const std::string mode = node.Text("mode");
  const bool is_lstm = mode == "lstm";
  if (!is_lstm && mode != "gru" && mode != "rnn_relu" && mode != "rnn_tanh") {
    return Fail("attribute mode: expected lstm, gru, rnn_relu or rnn_tanh");
  }
  const std::int64_t gates = is_lstm ? 4 : mode == "gru" ? 3 : 1;
  EBB_RETURN_IF_ERROR(at.Expect(is_lstm ? 4 : 3, is_lstm ? 4 : 3));
  EBB_ASSIGN_OR_RETURN(const Dims in, at.In(0, 3));
  EBB_ASSIGN_OR_RETURN(const std::int64_t size, IntegerOf(node, "state_size", 0));
  EBB_ASSIGN_OR_RETURN(const std::int64_t layers, IntegerOf(node, "num_layers", 0));
  EBB_ASSIGN_OR_RETURN(const bool both, FlagOf(node, "bidirectional", false));
  EBB_ASSIGN_OR_RETURN(const bool yields_states, FlagOf(node, "state_outputs", false));
  constexpr std::int64_t kMost = 1'000'000;
  if (in.size() != 3 || in[2] > kMost || size < 1 || size > kMost || layers < 1 || layers > 1000) {
    return Fail("expected three axes, state_size and num_layers");
  }
  const std::int64_t directions = both ? 2 : 1;
  std::int64_t weights = 0;
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::int64_t features = i == 0 ? in[2] : size * directions;
    weights += directions * gates * size * (features + size + 2);
  }
  EBB_RETURN_IF_ERROR(at.Fill(1, {weights}));
  const Dims state = {layers * directions, in[1], size};
  for (std::size_t i = 2; i < at.inputs(); ++i) EBB_RETURN_IF_ERROR(at.Fill(i, state));
  at.Yield({in[0], in[1], size * directions});
  for (std::size_t i = 2; yields_states && i < at.inputs(); ++i) at.Yield(state);
  return {};
}

}  // namespace ebbtide::model::mxnet
