// The table of operators.
#include "model/tensorflow/operators.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace ebbtide::model::tensorflow {
namespace {

// clang-format off
constexpr Operator kOperators[] = {
    // ---- element-wise, one operand
    {"Relu",        InferSame, "relu",       "0"}, {"Relu6",      InferSame, "hardtanh",   "0"},
    {"Elu",         InferSame, "elu",        "0"}, {"Selu",       InferSame, "elu",        "0"},
    {"LeakyRelu",   InferSame, "leaky_relu", "0"}, {"Softplus",   InferSame, "softplus",   "0"},
    {"Sigmoid",     InferSame, "sigmoid",    "0"}, {"Tanh",       InferSame, "tanh",       "0"},
    {"Softmax",     InferSame, "_softmax",   "0"}, {"LogSoftmax", InferSame, "_log_softmax", "0"},
    {"Neg",         InferSame, "neg",        "0"}, {"Abs",        InferSame, "abs",        "0"},
    {"Sqrt",        InferSame, "sqrt",       "0"}, {"Rsqrt",      InferSame, "rsqrt",      "0"},
    {"Square",      InferSame, "square",     "0"}, {"Reciprocal", InferSame, "reciprocal", "0"},
    {"Inv",         InferSame, "reciprocal", "0"}, {"Exp",        InferSame, "exp",        "0"},
    {"Log",         InferSame, "log",        "0"}, {"Log1p",      InferSame, "log",        "0"},
    {"Erf",         InferSame, "erf",        "0"}, {"Erfc",       InferSame, "erf",        "0"},
    {"Sin",         InferSame, "sin",        "0"}, {"Cos",        InferSame, "cos",        "0"},
    {"Sign",        InferSame, "sign",       "0"}, {"Floor",      InferSame, "floor",      "0"},
    {"Ceil",        InferSame, "ceil",       "0"}, {"Round",      InferSame, "round",      "0"},
    {"LogicalNot",  InferSame, "logical_not", "0"}, {"Cast",      InferCast, "_to_copy"},
    {"ZerosLike",   InferZeros, "zeros_like", "0"}, {"OnesLike",  InferZeros, "ones_like", "0"},
    {"BiasAdd",     InferSame, "add",        "0"}, {"BiasAddV1",  InferSame, "add",        "0"},
    {"StopGradient", InferSame, "detach",  "alias"},

    // ---- element-wise, several operands
    {"Add",  InferBroadcast, "add", "01"}, {"AddV2", InferBroadcast, "add", "01"}, {"Sub", InferBroadcast, "sub", "01"},
    {"Mul",  InferBroadcast, "mul", "01"}, {"RealDiv", InferBroadcast, "div", "01"}, {"Div", InferBroadcast, "div", "01"},
    {"DivNoNan", InferBroadcast, "div", "01"}, {"MulNoNan", InferBroadcast, "mul", "01"}, {"Pow", InferBroadcast, "pow", "01"},
    {"Maximum", InferBroadcast, "maximum", "01"}, {"Minimum", InferBroadcast, "minimum", "01"},
    {"SquaredDifference", InferBroadcast, "square", "01"}, {"FloorDiv", InferBroadcast, "floor_divide", "01"},
    {"FloorMod", InferBroadcast, "remainder", "01"}, {"Xdivy", InferBroadcast, "div", "01"},
    {"Less", InferCompare, "lt"}, {"LessEqual", InferCompare, "le"}, {"Greater", InferCompare, "gt"},
    {"GreaterEqual", InferCompare, "ge"}, {"Equal", InferCompare, "eq"}, {"NotEqual", InferCompare, "ne"},
    {"LogicalAnd", InferCompare, "logical_and", "01"}, {"LogicalOr", InferCompare, "logical_or", "01"},
    {"Select", InferSelect, "where", "12"}, {"SelectV2", InferSelect, "where"}, {"AddN", InferSum, "add", "*"},

    // ---- gradients of element-wise operators
    {"ReluGrad", InferSame, "threshold_backward", "01"}, {"Relu6Grad", InferSame, "hardtanh_backward", "01"},
    {"EluGrad", InferSame, "elu_backward", "01"}, {"SeluGrad", InferSame, "elu_backward", "01"},
    {"LeakyReluGrad", InferSame, "leaky_relu_backward", "01"}, {"SoftplusGrad", InferSame, "softplus_backward", "01"},
    {"SigmoidGrad", InferSame, "sigmoid_backward", "01"}, {"TanhGrad", InferSame, "tanh_backward", "01"},
    {"RsqrtGrad", InferSame, "mul", "01"}, {"SqrtGrad", InferSame, "div", "01"}, {"ReciprocalGrad", InferSame, "mul", "01"},
    {"InvGrad", InferSame, "mul", "01"}, {"BiasAddGrad", InferBiasGradient, "sum"},

    // ---- losses
    {"SoftmaxCrossEntropyWithLogits",       InferCrossEntropy, "nll_loss_forward", "0>1"},
    {"SparseSoftmaxCrossEntropyWithLogits", InferCrossEntropy, "nll_loss_forward", "0>1"},

    // ---- products
    {"MatMul", InferMatMul, "mm"}, {"BatchMatMul", InferBatchMatMul, "bmm"}, {"BatchMatMulV2", InferBatchMatMul, "bmm"},
    {"BatchMatMulV3", InferBatchMatMul, "bmm"}, {"Einsum", InferEinsum, "bmm"},

    // ---- images
    {"Conv2D", InferConvolution, "convolution"}, {"DepthwiseConv2dNative", InferConvolution, "convolution"},
    {"Conv2DBackpropInput",  InferConvolutionInputGradient,  "convolution_backward"},
    {"Conv2DBackpropFilter", InferConvolutionFilterGradient, "convolution_backward"},
    {"DepthwiseConv2dNativeBackpropInput",  InferConvolutionInputGradient,  "convolution_backward"},
    {"DepthwiseConv2dNativeBackpropFilter", InferConvolutionFilterGradient, "convolution_backward"},
    {"MaxPool", InferPool, "max_pool2d"}, {"AvgPool", InferPool, "avg_pool2d"},
    {"MaxPoolGrad", InferSame, "max_pool2d_backward"}, {"AvgPoolGrad", InferAveragePoolGradient, "avg_pool2d_backward"},
    {"FusedBatchNorm", InferBatchNorm, "cudnn_batch_norm", "0"}, {"FusedBatchNormV2", InferBatchNorm, "cudnn_batch_norm", "0"},
    {"FusedBatchNormV3", InferBatchNorm, "cudnn_batch_norm", "0"},
    {"FusedBatchNormGrad", InferBatchNormGradient, "cudnn_batch_norm_backward", "0"},
    {"FusedBatchNormGradV2", InferBatchNormGradient, "cudnn_batch_norm_backward", "0"},
    {"FusedBatchNormGradV3", InferBatchNormGradient, "cudnn_batch_norm_backward", "0"},
    {"ResizeBilinear", InferResize, "upsample_bilinear2d"}, {"ResizeNearestNeighbor", InferResize, "upsample_nearest2d"},

    // ---- recurrent networks
    {"CudnnRNNV3", InferCudnnRecurrent, "_cudnn_rnn"}, {"CudnnRNNBackpropV3", InferCudnnRecurrentGradient, "_cudnn_rnn_backward"},

    // ---- reductions
    {"Sum", InferReduction, "sum"}, {"Mean", InferReduction, "mean"}, {"Max", InferReduction, "amax"}, {"Min", InferReduction, "amin"},
    {"Prod", InferReduction, "prod"}, {"All", InferReduction, "all"}, {"Any", InferReduction, "any"},
    {"ArgMax", InferArgument, "argmax"}, {"ArgMin", InferArgument, "argmin"},

    // ---- the same elements elsewhere
    {"Reshape", InferReshape, "view", "alias"}, {"Squeeze", InferSqueeze, "view", "alias"}, {"ExpandDims", InferExpandDims, "view", "alias"},
    {"Transpose", InferTranspose, "permute_copy"}, {"ConcatV2", InferConcat, "cat"}, {"Concat", InferConcat, "cat"},
    {"Split", InferSplit, "split_copy"}, {"SplitV", InferSplit, "split_copy"}, {"Pack", InferPack, "stack"}, {"Unpack", InferUnpack, "unbind_copy"},
    {"Slice", InferSlice, "slice_copy"}, {"StridedSlice", InferStridedSlice, "slice_copy"},
    {"StridedSliceGrad", InferStridedSliceGradient, "slice_backward"}, {"Pad", InferPad, "constant_pad_nd"}, {"PadV2", InferPad, "constant_pad_nd"},
    {"MirrorPad", InferPad, "reflection_pad2d"}, {"Tile", InferTile, "repeat"}, {"BroadcastTo", InferFill, "expand_copy"},
    {"GatherV2", InferGather, "index_select"}, {"Gather", InferGather, "index_select"}, {"ResourceGather", InferGather, "embedding"},
    {"UnsortedSegmentSum", InferSegmentSum, "embedding_dense_backward"}, {"OneHot", InferOneHot, "one_hot"}, {"ReverseV2", InferSame, "flip"},

    // ---- sizes
    {"Shape", InferShape, "shape"}, {"ShapeN", InferShape, "shape"}, {"VariableShape", InferShape, "shape"}, {"Size", InferSize, "shape"},
    {"Rank", InferSize, "shape"}, {"Fill", InferFill, "full"}, {"Range", InferRange, "arange"},
    {"BroadcastGradientArgs", InferBroadcastGradient, "shape"}, {"ConcatOffset", InferConcatOffset, "shape"},
    {"DynamicStitch", InferDynamicStitch, "shape"}, {"InvertPermutation", InferInvertPermutation, "shape"},

    // ---- random numbers
    {"RandomUniform", InferRandom, "rand"}, {"RandomStandardNormal", InferRandom, "randn"}, {"TruncatedNormal", InferRandom, "randn"},
    {"StatelessRandomUniform", InferRandom, "rand"}, {"StatelessRandomUniformV2", InferRandom, "rand"},
    {"StatelessRandomNormalV2", InferRandom, "randn"}, {"StatelessRandomGetKeyCounter", InferRandomKey, "shape"},

    // ---- variables
    {"ReadVariableOp", InferRead, "alias", "alias"}, {"AssignVariableOp", InferUpdate, "copy_"},
    {"AssignAddVariableOp", InferUpdate, "add_"}, {"AssignSubVariableOp", InferUpdate, "sub_"},
    {"ResourceApplyGradientDescent", InferUpdate, "_fused_sgd_"}, {"ResourceApplyMomentum", InferUpdate, "_fused_sgd_"},
    {"ResourceApplyKerasMomentum", InferUpdate, "_fused_sgd_"}, {"ResourceApplyAdam", InferUpdate, "_fused_adam_"},
    {"ResourceApplyAdamWithAmsgrad", InferUpdate, "_fused_adam_"}, {"ResourceApplyRMSProp", InferUpdate, "addcdiv_"},
    {"ResourceApplyAdagradV2", InferUpdate, "_fused_adagrad_"}, {"ResourceApplyAdagrad", InferUpdate, "_fused_adagrad_"},
    {"ResourceScatterAdd", InferUpdate, "index_put_"}, {"ResourceScatterSub", InferUpdate, "index_put_"},
    {"ResourceSparseApplyAdagradV2", InferUpdate, "index_put_"}, {"ResourceSparseApplyMomentum", InferUpdate, "index_put_"},
    {"ResourceSparseApplyKerasMomentum", InferUpdate, "index_put_"},

    // ---- lists
    {"EmptyTensorList", InferListReserve, "list"}, {"TensorListReserve", InferListReserve, "list"},
    {"TensorListFromTensor", InferListFromTensor, "unbind", "alias"}, {"TensorListGetItem", InferListGet, "zeros"},
    {"TensorListSetItem", InferListSet, "list"}, {"TensorListPushBack", InferListPush, "list"}, {"TensorListPopBack", InferListPop, "list"},
    {"TensorListStack", InferListStack, "stack"}, {"TensorListLength", InferListLength, "list"},
    {"TensorListElementShape", InferListElementShape, "list"},

    // ---- what hands on, or does nothing to memory
    {"Identity", InferIdentity, "alias"}, {"IdentityN", InferAll, "alias"}, {"Snapshot", InferIdentity, "alias"},
    {"PreventGradient", InferIdentity, "alias"}, {"CheckNumerics", InferIdentity, "alias"}, {"PlaceholderWithDefault", InferIdentity, "alias"},
    {"EnsureShape", InferIdentity, "alias"}, {"NoOp", InferNothing, "nothing"}, {"Assert", InferNothing, "nothing"},
};
// clang-format on

}  // namespace

const Operator* FindOperator(std::string_view op) {
  static const auto* rows = [] {
    auto* map = new std::unordered_map<std::string_view, const Operator*>;
    for (const Operator& row : kOperators) map->emplace(row.name, &row);
    return map;
  }();
  const auto found = rows->find(op);
  return found == rows->end() ? nullptr : found->second;
}

}  // namespace ebbtide::model::tensorflow
