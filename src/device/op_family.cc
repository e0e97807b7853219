// Families of ops, and what their kernels reach: the table that docs/op-times.md explains.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "device/op_time.h"

namespace ebbtide {
namespace {

using enum OpFamily;

// Shares of float32 arithmetic and of bandwidth are from traces of a TITAN V, those of tensor cores are assumed.
constexpr std::array<FamilyEfficiency, static_cast<std::size_t>(kFamilies)> kEfficiencies = {{
    {kNothing, "nothing", 1, 1, 1, 0},
    {kConvolution, "convolution", 0.75, 0.45, 0.80, 1},
    {kConvolutionBackward, "convolution backward", 0.60, 0.40, 0.80, 1},
    {kMatrixProduct, "matrix product", 0.82, 0.60, 0.80, 1},
    {kAttention, "attention", 0.50, 0.40, 0.80, 1},
    {kRecurrent, "recurrent", 0.55, 0.30, 0.80, 1},
    {kElementwise, "elementwise", 0.90, 0.90, 0.90, 1},
    {kNormalization, "normalization", 0.90, 0.90, 0.75, 2},
    {kNormalizationBackward, "normalization backward", 0.90, 0.90, 0.80, 2},
    {kSoftmax, "softmax", 0.90, 0.90, 0.85, 1},
    {kPooling, "pooling", 0.90, 0.90, 0.75, 1},
    {kPoolingBackward, "pooling backward", 0.90, 0.90, 0.45, 1},
    {kReduction, "reduction", 0.90, 0.90, 0.65, 1},
    {kCopy, "copy", 0.90, 0.90, 0.70, 1},
    {kLookup, "lookup", 0.90, 0.90, 0.50, 1},
}};

const std::unordered_map<std::string_view, OpFamily>& Families() {
  static const std::unordered_map<std::string_view, OpFamily> families = {
      {"empty", kNothing},
      {"wait_tensor", kNothing},
      {"empty_like", kNothing},
      {"empty_strided", kNothing},
      {"new_empty", kNothing},
      {"new_empty_strided", kNothing},

      {"convolution", kConvolution},
      {"cudnn_convolution", kConvolution},
      {"cudnn_convolution_transpose", kConvolution},
      {"conv_depthwise2d", kConvolution},
      {"_conv_depthwise2d", kConvolution},
      {"convolution_backward", kConvolutionBackward},
      {"cudnn_convolution_backward", kConvolutionBackward},

      {"mm", kMatrixProduct},
      {"addmm", kMatrixProduct},
      {"addmm_backward", kMatrixProduct},
      {"bmm", kMatrixProduct},
      {"baddbmm", kMatrixProduct},
      {"addbmm", kMatrixProduct},
      {"linear", kMatrixProduct},
      {"linear_backward", kMatrixProduct},
      {"matmul", kMatrixProduct},
      {"_grouped_mm", kMatrixProduct},
      {"int8_linear", kMatrixProduct},
      {"quantized_linear", kMatrixProduct},
      {"quantized_linear_backward", kMatrixProduct},
      {"fused_lora_gptq4", kMatrixProduct},
      {"fused_lora_gptq4_input_backward", kMatrixProduct},
      {"fused_lora_nf4", kMatrixProduct},
      {"fused_lora_nf4_", kMatrixProduct},
      {"fused_lora_nf4_input_backward", kMatrixProduct},
      {"fused_lora_nf4_input_backward_", kMatrixProduct},
      {"fused_lora_weights_backward", kMatrixProduct},
      {"liger_linear_cross_entropy", kMatrixProduct},
      {"cut_cross_entropy", kMatrixProduct},
      {"cut_cross_entropy_backward", kMatrixProduct},

      {"_scaled_dot_product_efficient_attention", kAttention},
      {"_scaled_dot_product_efficient_attention_backward", kAttention},
      {"_scaled_dot_product_flash_attention", kAttention},
      {"_scaled_dot_product_flash_attention_backward", kAttention},
      {"_scaled_dot_product_flash_attention_for_cpu", kAttention},
      {"_scaled_dot_product_flash_attention_for_cpu_backward", kAttention},
      {"_scaled_dot_product_cudnn_attention", kAttention},
      {"_scaled_dot_product_cudnn_attention_backward", kAttention},

      {"_cudnn_rnn", kRecurrent},
      {"_cudnn_rnn_backward", kRecurrent},
      {"mkldnn_rnn_layer", kRecurrent},
      {"mkldnn_rnn_layer_backward", kRecurrent},

      {"native_batch_norm", kNormalization},
      {"_native_batch_norm_legit", kNormalization},
      {"_batch_norm_with_update", kNormalization},
      {"cudnn_batch_norm", kNormalization},
      {"native_layer_norm", kNormalization},
      {"native_group_norm", kNormalization},
      {"_fused_rms_norm", kNormalization},
      {"native_batch_norm_backward", kNormalizationBackward},
      {"batch_norm_backward", kNormalizationBackward},
      {"cudnn_batch_norm_backward", kNormalizationBackward},
      {"native_layer_norm_backward", kNormalizationBackward},
      {"native_group_norm_backward", kNormalizationBackward},
      {"_fused_rms_norm_backward", kNormalizationBackward},

      {"_softmax", kSoftmax},
      {"_log_softmax", kSoftmax},
      {"_softmax_backward_data", kSoftmax},
      {"_log_softmax_backward_data", kSoftmax},

      {"max_pool2d_with_indices", kPooling},
      {"max_pool3d_with_indices", kPooling},
      {"avg_pool2d", kPooling},
      {"_adaptive_avg_pool2d", kPooling},
      {"adaptive_max_pool2d", kPooling},
      {"max_pool2d_with_indices_backward", kPoolingBackward},
      {"max_pool3d_with_indices_backward", kPoolingBackward},
      {"avg_pool2d_backward", kPoolingBackward},
      {"_adaptive_avg_pool2d_backward", kPoolingBackward},
      {"adaptive_max_pool2d_backward", kPoolingBackward},

      {"sum", kReduction},
      {"mean", kReduction},
      {"amax", kReduction},
      {"amin", kReduction},
      {"max", kReduction},
      {"min", kReduction},
      {"argmax", kReduction},
      {"any", kReduction},
      {"all", kReduction},
      {"var", kReduction},
      {"var_mean", kReduction},
      {"prod", kReduction},
      {"cumsum", kReduction},
      {"logsumexp", kReduction},
      {"linalg_vector_norm", kReduction},
      {"_foreach_norm", kReduction},
      {"nll_loss_forward", kReduction},
      {"nll_loss2d_forward", kReduction},

      {"cat", kCopy},
      {"stack", kCopy},
      {"clone", kCopy},
      {"copy", kCopy},
      {"_to_copy", kCopy},
      {"contiguous", kCopy},
      {"repeat", kCopy},
      {"roll", kCopy},
      {"flip", kCopy},
      {"constant_pad_nd", kCopy},
      {"slice_backward", kCopy},
      {"select_backward", kCopy},
      {"split_backward", kCopy},
      {"view_copy", kCopy},

      {"embedding", kLookup},
      {"gather", kLookup},
      {"index", kLookup},
      {"index_select", kLookup},
  };
  return families;
}

}  // namespace

const FamilyEfficiency& EfficiencyOf(OpFamily family) { return kEfficiencies[static_cast<std::size_t>(family)]; }

OpFamily FamilyOf(std::string_view kind) {
  const auto& families = Families();
  auto found = families.find(kind);
  if (found == families.end() && kind.ends_with('_')) found = families.find(kind.substr(0, kind.size() - 1));
  return found == families.end() ? kElementwise : found->second;
}

}  // namespace ebbtide
