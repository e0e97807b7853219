// A table for each kind of descriptor.
#include "phantom/cudnn/attribute_table.h"

namespace ebbtide::phantom {

namespace {

constexpr std::int64_t kDims = CUDNN_DIM_MAX;
constexpr std::int64_t kMany = 1 << 16;
constexpr AttributeUse kOptional = AttributeUse::kOptional;
constexpr AttributeUse kAnswer = AttributeUse::kAnswer;

// Scale factors may be given as float or double; the table says double, and float is taken too.
constexpr cudnnBackendAttributeType_t kReal = CUDNN_TYPE_DOUBLE;
constexpr cudnnBackendAttributeType_t kDescriptor = CUDNN_TYPE_BACKEND_DESCRIPTOR;

constexpr AttributeRow kTensor[] = {
    {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64},
    {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, kDims},
    {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, kDims},
    {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64},
    {CUDNN_ATTR_TENSOR_VECTOR_COUNT, CUDNN_TYPE_INT64, 1, kOptional},
    {CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, CUDNN_TYPE_INT64, 1, kOptional},
    {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, kOptional},
    {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, kOptional},
    {CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, kOptional},
    {CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER, CUDNN_TYPE_INT64, 1, kOptional},
};

constexpr AttributeRow kPointwise[] = {
    {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE},
    {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, kOptional},
    {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, kReal, 1, kOptional},
    {CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, kReal, 1, kOptional},
    {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, kReal, 1, kOptional},
    {CUDNN_ATTR_POINTWISE_ELU_ALPHA, kReal, 1, kOptional},
    {CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, kReal, 1, kOptional},
    {CUDNN_ATTR_POINTWISE_SWISH_BETA, kReal, 1, kOptional},
    {CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, kOptional},
};

constexpr AttributeRow kConvolution[] = {
    {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE},
    {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, kDims},
    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, kDims},
    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, kDims},
    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, kDims},
    {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64},
};

constexpr AttributeRow kMatmul[] = {
    {CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_ATTR_MATMUL_PADDING_VALUE, kReal, 1, kOptional},
};

constexpr AttributeRow kReduction[] = {
    {CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE},
    {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, CUDNN_TYPE_BOOLEAN, 1, kOptional},
};

constexpr AttributeRow kRandom[] = {
    {CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION},
    {CUDNN_ATTR_RNG_NORMAL_DIST_MEAN, kReal, 1, kOptional},
    {CUDNN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION, kReal, 1, kOptional},
    {CUDNN_ATTR_RNG_UNIFORM_DIST_MAXIMUM, kReal, 1, kOptional},
    {CUDNN_ATTR_RNG_UNIFORM_DIST_MINIMUM, kReal, 1, kOptional},
    {CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, kReal, 1, kOptional},
};

constexpr AttributeRow kForward[] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, kReal},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, kReal},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, kDescriptor},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, kDescriptor},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, kDescriptor},
};

constexpr AttributeRow kDataGradient[] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, kReal},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, kReal},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, kDescriptor},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, kDescriptor},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, kDescriptor},
};

constexpr AttributeRow kFilterGradient[] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, kReal},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, kReal},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, kDescriptor},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, kDescriptor},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, kDescriptor},
};

constexpr AttributeRow kPointwiseOperation[] = {
    {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kDescriptor},
    {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, kReal, 1, kOptional},
    {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, kReal, 1, kOptional},
    {CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, kDescriptor, 1, kOptional},
};

constexpr AttributeRow kMatmulOperation[] = {
    {CUDNN_ATTR_OPERATION_MATMUL_ADESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_MATMUL_BDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_MATMUL_CDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_MATMUL_DESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT, CUDNN_TYPE_INT64, 1, kOptional},
    {CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, kDescriptor, 1, kOptional},
};

constexpr AttributeRow kReductionOperation[] = {
    {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_REDUCTION_DESC, kDescriptor},
};

constexpr AttributeRow kReshapeOperation[] = {
    {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_RESHAPE_MODE, CUDNN_TYPE_RESHAPE_MODE, 1, kOptional},
};

constexpr AttributeRow kRandomOperation[] = {
    {CUDNN_ATTR_OPERATION_RNG_YDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_RNG_DESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_RNG_SEED, kDescriptor, 1, kOptional},  // or int64: the seed itself
    {CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, kDescriptor, 1, kOptional},
};

constexpr AttributeRow kNormForward[] = {
    {CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE},
    {CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE},
    {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS, kDescriptor, kMany, kOptional},
};

constexpr AttributeRow kNormBackward[] = {
    {CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE},
    {CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS, kDescriptor, kMany, kOptional},
};

constexpr AttributeRow kAttentionForward[] = {
    {CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, kDescriptor},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_SOFTMAX_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_SEED_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_OFFSET_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_RNG_DUMP_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_CU_SEQ_LEN_QDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_CU_SEQ_LEN_KVDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH, kDescriptor, kMany, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID, CUDNN_TYPE_INT64, kMany, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID, CUDNN_TYPE_INT64, kMany, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_PROBABILITY, kReal, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SDPA_FWD_UNFUSE_FMA, CUDNN_TYPE_BOOLEAN, 1, kOptional},
};

constexpr AttributeRow kSoftmaxOperation[] = {
    {CUDNN_ATTR_OPERATION_SOFTMAX_XDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SOFTMAX_YDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SOFTMAX_STATS_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SOFTMAX_MAX_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SOFTMAX_SUM_EXP_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_SOFTMAX_SINK_DESC, kDescriptor, 1, kOptional},
};

constexpr AttributeRow kBandMask[] = {
    {CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_XDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_QDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_LEFT_BOUND_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SHIFT_RIGHT_BOUND_DESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_BDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_CU_SEQ_LEN_KVDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_CU_SEQ_LEN_QDESC, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, kOptional},
};

constexpr AttributeRow kGraph[] = {
    {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, kOptional},
    {CUDNN_ATTR_OPERATIONGRAPH_OPS, kDescriptor, kMany},
    {CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1, kAnswer},
    {CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, CUDNN_TYPE_BOOLEAN, 1, kOptional},
    {CUDNN_ATTR_OPERATIONGRAPH_IS_SAME_TOPOLOGY, CUDNN_TYPE_BOOLEAN, 1, kOptional},
    {CUDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED, CUDNN_TYPE_BOOLEAN, 1, kOptional},
};

constexpr AttributeRow kHeuristics[] = {
    {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE},
    {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, kDescriptor},
    {CUDNN_ATTR_ENGINEHEUR_RESULTS, kDescriptor, kMany, kAnswer},
    {CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1, kOptional},
};

constexpr AttributeRow kEngine[] = {
    {CUDNN_ATTR_ENGINE_OPERATION_GRAPH, kDescriptor},
    {CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64},
    {CUDNN_ATTR_ENGINE_KNOB_INFO, kDescriptor, kMany, kAnswer},
    {CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, kMany, kAnswer},
    {CUDNN_ATTR_ENGINE_LAYOUT_INFO, kDescriptor, kMany, kAnswer},
    {CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, kMany, kAnswer},
    {CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1, kOptional},
};

constexpr AttributeRow kConfig[] = {
    {CUDNN_ATTR_ENGINECFG_ENGINE, kDescriptor},
    {CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, kDescriptor, kMany, kOptional},
    {CUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO, kDescriptor, kMany, kAnswer},
    {CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, kAnswer},
    {CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, CUDNN_TYPE_INT64, 1, kAnswer},
};

constexpr AttributeRow kKnobChoice[] = {
    {CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE},
    {CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64},
};

constexpr AttributeRow kKnobInfo[] = {
    {CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, kAnswer},
    {CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64, 1, kAnswer},
    {CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64, 1, kAnswer},
    {CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64, 1, kAnswer},
};

constexpr AttributeRow kPlan[] = {
    {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, kOptional},
    {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, kDescriptor},
    {CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, kAnswer},
    {CUDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS, CUDNN_TYPE_INT64, kMany, kAnswer},
    {CUDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS, CUDNN_TYPE_INT64, kMany, kAnswer},
    {CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, kMany, kAnswer},
    {CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE, kDescriptor, 1, kOptional},
};

constexpr AttributeRow kKernelCache[] = {
    {CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH, kDescriptor, 1, kOptional},
    {CUDNN_ATTR_KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED, CUDNN_TYPE_BOOLEAN, 1, kAnswer},
};

constexpr AttributeRow kPack[] = {
    {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, kMany},
    {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, kMany},
    {CUDNN_ATTR_VARIANT_PACK_INTERMEDIATES, CUDNN_TYPE_VOID_PTR, kMany, kOptional},
    {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, kOptional},
};

constexpr DescriptorKind kKinds[] = {
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor", false, kTensor},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise", false, kPointwise},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "convolution", false, kConvolution},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, "matmul", false, kMatmul},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "reduction", false, kReduction},
    {CUDNN_BACKEND_RNG_DESCRIPTOR, "rng", false, kRandom},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "convolution_forward", true, kForward},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, "convolution_backward_data", true, kDataGradient},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, "convolution_backward_filter", true,
     kFilterGradient},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "pointwise", true, kPointwiseOperation},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "matmul", true, kMatmulOperation},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "reduction", true, kReductionOperation},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "reshape", true, kReshapeOperation},
    {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, "rng", true, kRandomOperation},
    {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, "norm_forward", true, kNormForward},
    {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, "norm_backward", true, kNormBackward},
    {CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, "attention_forward", true, kAttentionForward},
    {CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR, "softmax", true, kSoftmaxOperation},
    {CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR, "diagonal_band_mask", true, kBandMask},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "operation graph", false, kGraph},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "engine heuristics", false, kHeuristics},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, "engine", false, kEngine},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "engine configuration", false, kConfig},
    {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, "knob choice", false, kKnobChoice},
    {CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, "knob info", false, kKnobInfo},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "execution plan", false, kPlan},
    {CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR, "kernel cache", false, kKernelCache},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "variant pack", false, kPack},
};

}  // namespace

const AttributeRow* DescriptorKind::Find(cudnnBackendAttributeName_t attribute) const {
  for (const AttributeRow& row : attributes)
    if (row.name == attribute) return &row;
  return nullptr;
}

const DescriptorKind* FindKind(cudnnBackendDescriptorType_t type) {
  for (const DescriptorKind& kind : kKinds)
    if (kind.type == type) return &kind;
  return nullptr;
}

std::size_t ElementSize(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE: return 8;
    case CUDNN_TYPE_FRACTION: return sizeof(cudnnFraction_t);
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    default: return type >= CUDNN_TYPE_HANDLE && type <= CUDNN_TYPE_RESHAPE_MODE ? 4 : 0;  // float, int32 and enums
  }
}

}  // namespace ebbtide::phantom
