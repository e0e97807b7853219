// One row per operator. What gradients read is what MXNet 1.9.1's executor lists (Executor.debug_str()).
#include "model/mxnet/operators.h"

#include <algorithm>
#include <array>

namespace ebbtide::model::mxnet {
namespace {

using enum ShapeRule;

// clang-format off
constexpr Operator kTable[] = {
    {"Convolution", kConvolution, "convolution", false,
     "_backward_Convolution", "g0 i0 i1", "i*", "convolution_backward"},
    {"FullyConnected", kFullyConnected, "linear", false,
     "_backward_FullyConnected", "g0 i0 i1", "i*", "linear_backward"},
    {"BatchNorm", kBatchNorm, "native_batch_norm", false,
     "_backward_BatchNorm", "g0 o1 o2 i0 i1 i2 i3 i4", "i0 i1 i2", "native_batch_norm_backward"},
    {"LayerNorm", kLayerNorm, "native_layer_norm", false,
     "_backward_LayerNorm", "g0 i0 i1 o1 o2", "i0 i1 i2", "native_layer_norm_backward"},
    {"Activation:relu", kSame, "relu", false, "_backward_Activation", "g0 o0", "i0", "threshold_backward"},
    {"Activation:sigmoid", kSame, "sigmoid", false, "_backward_Activation", "g0 o0 i0", "i0", "sigmoid_backward"},
    {"Activation:tanh", kSame, "tanh", false, "_backward_Activation", "g0 o0 i0", "i0", "tanh_backward"},
    {"Activation", kSame, "softplus", false, "_backward_Activation", "g0 o0 i0", "i0", "softplus_backward"},
    {"LeakyReLU", kSame, "leaky_relu", false, "_backward_LeakyReLU", "g0 i0 o0", "i0", "leaky_relu_backward"},
    {"relu", kSame, "relu", false, "_backward_relu", "g0 o0", "i0", "threshold_backward"},
    {"sigmoid", kSame, "sigmoid", false, "_backward_sigmoid", "g0 o0", "i0", "sigmoid_backward"},
    {"tanh", kSame, "tanh", false, "_backward_tanh", "g0 o0", "i0", "tanh_backward"},
    {"clip", kSame, "hardtanh", false, "_backward_clip", "g0 i0", "i0", "hardtanh_backward"},
    {"softmax", kSame, "_softmax", false, "_backward_softmax", "g0 o0", "i0", "_softmax_backward_data"},
    {"Pooling:max", kPooling, "max_pool2d_with_indices", false,
     "_backward_Pooling", "g0 g1 i0 o0 o1", "i0", "max_pool2d_with_indices_backward"},
    {"Pooling", kPooling, "avg_pool2d", false, "_backward_Pooling", "g0 i0 o0", "i0", "avg_pool2d_backward"},
    {"Dropout", kDropout, "native_dropout", false, "_backward_Dropout", "g0 o1", "i0", "native_dropout_backward"},
    {"Concat", kConcat, "cat", false, "_backward_Concat", "g0 i*", "i*", "split_with_sizes_copy"},
    {"SliceChannel", kSplit, "split_with_sizes_copy", false, "_backward_SliceChannel", "g*", "i0", "cat"},
    {"elemwise_add", kSame, "add", false, "=", "", "", ""},
    {"elemwise_sub", kSame, "sub", false, "_backward_sub", "g0", "i0 i1", "neg"},
    {"elemwise_mul", kSame, "mul", false, "_backward_mul", "g0 i0 i1", "i0 i1", "mul"},
    {"broadcast_add", kBroadcast, "add", false, "_backward_broadcast_add", "g0", "i0 i1", "sum"},
    {"broadcast_mul", kBroadcast, "mul", false, "_backward_broadcast_mul", "g0 i0 i1", "i0 i1", "mul"},
    {"_plus_scalar", kSame, "add", false, "=", "", "", ""},
    {"_mul_scalar", kSame, "mul", false, "_backward_mul_scalar", "g0", "i0", "mul"},
    {"Flatten", kFlatten, "view", true, "_backward_copy", "g0", "i0", "view", true},
    {"Reshape", kReshape, "view", true, "_backward_reshape", "g0", "i0", "view", true},
    {"expand_dims", kExpandDims, "view", true, "_backward_reshape", "g0", "i0", "view", true},
    {"_copy", kSame, "clone", true, "_backward_copy", "g0", "i0", "view", true},
    {"BlockGrad", kSame, "detach", true, "", "", "", ""},
    {"SwapAxis", kSwapAxes, "transpose_copy", false, "_backward_SwapAxis", "g0", "i0", "transpose_copy"},
    {"transpose", kTranspose, "permute_copy", false, "transpose", "g0", "i0", "permute_copy"},
    {"slice_axis", kSliceAxis, "slice_copy", false, "_backward_slice_axis", "g0", "i0", "slice_backward"},
    {"mean", kMean, "mean", false, "_backward_mean", "g0", "i0", "expand_copy"},
    {"batch_dot", kBatchDot, "bmm", false, "_backward_batch_dot", "g0 i0 i1", "i0 i1", "bmm"},
    {"Embedding", kEmbedding, "embedding", false, "_backward_Embedding", "g0 i0", "i0 i1", "embedding_dense_backward"},
    {"RNN", kRecurrent, "_cudnn_rnn", false, "_backward_RNN", "i0 i1 i2 o0 g0 i3", "i*", "_cudnn_rnn_backward"},
    {"SoftmaxOutput", kSoftmaxOutput, "_softmax", false,
     "_backward_SoftmaxOutput", "o0 i1", "i0 i1", "_softmax_backward_data"},
    {"_zeros", kZeros, "zeros", false, "", "", "", ""},
};

// Names that MXNet registers beside, and older ones.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kOtherNames = {{
    {"concat", "Concat"}, {"split", "SliceChannel"}, {"swapaxes", "SwapAxis"}, {"flatten", "Flatten"},
    {"reshape", "Reshape"}, {"_Plus", "elemwise_add"}, {"_plus", "elemwise_add"}, {"_add", "elemwise_add"},
    {"_Mul", "elemwise_mul"}, {"_mul", "elemwise_mul"}, {"_sub", "elemwise_sub"}, {"identity", "_copy"},
    {"Softmax", "SoftmaxOutput"}, {"stop_gradient", "BlockGrad"},
}};
// clang-format on

const Operator* FindRow(std::string_view name) {
  const auto* row =
      std::find_if(std::begin(kTable), std::end(kTable), [&](const Operator& op) { return op.name == name; });
  return row == std::end(kTable) ? nullptr : row;
}

}  // namespace

std::string_view RegisteredName(const Operator& op) { return op.name.substr(0, op.name.find(':')); }

const Operator* FindOperator(const Node& node) {
  std::string_view name = node.op;
  for (const auto& [other, known] : kOtherNames) {
    if (name == other) name = known;
  }
  std::string variant;
  if (name == "Activation") variant = node.Text("act_type");
  if (name == "Pooling") variant = node.Text("pool_type", "max");
  if (!variant.empty()) {
    if (const Operator* row = FindRow(std::string(name) + ":" + variant)) return row;
  }
  return FindRow(name);
}

}  // namespace ebbtide::model::mxnet
