// The table of ops.
#include "parallel/tp_rules.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ebbtide::parallel {
namespace {

constexpr std::pair<const char*, Rule> kRules[] = {
    {"view", Rule::kReshape},
    {"_unsafe_view", Rule::kReshape},
    {"reshape", Rule::kReshape},
    {"unsqueeze", Rule::kReshape},
    {"squeeze", Rule::kReshape},
    {"t", Rule::kAxes},
    {"transpose", Rule::kAxes},
    {"permute", Rule::kAxes},
    {"slice", Rule::kPlaces},
    {"slice_backward", Rule::kPlaces},
    {"expand", Rule::kPlaces},
    {"cat", Rule::kPlaces},
    {"mean", Rule::kPlaces},
    {"sum", Rule::kPlaces},
    {"constant_pad_nd", Rule::kPlaces},
    {"native_layer_norm", Rule::kPlaces},
    {"native_layer_norm_backward", Rule::kPlaces},
    {"_fused_rms_norm", Rule::kPlaces},
    {"_fused_rms_norm_backward", Rule::kPlaces},
    {"_softmax", Rule::kPlaces},
    {"_softmax_backward_data", Rule::kPlaces},
    {"mm", Rule::kProduct},
    {"addmm", Rule::kProduct},
    {"bmm", Rule::kBatched},
    {"baddbmm", Rule::kBatched},
    {"_scaled_dot_product_flash_attention", Rule::kAttention},
    {"_scaled_dot_product_efficient_attention", Rule::kAttention},
    {"_scaled_dot_product_cudnn_attention", Rule::kAttention},
    {"_scaled_dot_product_flash_attention_backward", Rule::kAttention},
    {"_scaled_dot_product_efficient_attention_backward", Rule::kAttention},
    {"_scaled_dot_product_cudnn_attention_backward", Rule::kAttention},
    {"embedding", Rule::kLookup},
    {"embedding_dense_backward", Rule::kLookupBackward},
    {"_log_softmax", Rule::kLogSoftmax},
    {"_log_softmax_backward_data", Rule::kElementwise},
    {"nll_loss_forward", Rule::kLoss},
    {"nll_loss_backward", Rule::kLossBackward},
};

constexpr const char* kElementwise[] = {"add",
                                        "sub",
                                        "mul",
                                        "div",
                                        "neg",
                                        "pow",
                                        "rsqrt",
                                        "sqrt",
                                        "exp",
                                        "reciprocal",
                                        "silu",
                                        "gelu",
                                        "relu",
                                        "tanh",
                                        "sigmoid",
                                        "cos",
                                        "sin",
                                        "_to_copy",
                                        "clone",
                                        "native_dropout",
                                        "where",
                                        "masked_fill",
                                        "silu_backward",
                                        "gelu_backward",
                                        "tanh_backward",
                                        "sigmoid_backward",
                                        "threshold_backward",
                                        "native_dropout_backward",
                                        "clamp",
                                        "copy",
                                        "contiguous",
                                        "rsub",
                                        "square",
                                        "ones_like",
                                        "zeros_like",
                                        "detach",
                                        "alias"};

}  // namespace

Rule RuleOf(std::string kind) {
  for (const auto& [name, rule] : kRules) {
    if (kind == name) return rule;
  }
  if (kind.ends_with('_') && kind.size() > 1) kind.pop_back();
  return std::ranges::find(kElementwise, kind) == std::end(kElementwise) ? Rule::kUnknown : Rule::kElementwise;
}

}  // namespace ebbtide::parallel
