// The kinds of op whose kernels ask PyTorch's allocator for nothing but their results. By bench/estimate/scratch_bench.py,
// which runs them on the phantom GPU at several sizes and layouts, or because no kernel runs (views) or it only fills.
#include <algorithm>
#include <iterator>

#include "estimate/scratch_rules.h"

namespace ebbtide::estimate {
namespace {

// In the order of their names; kinds in place, with an underscore behind, are as those without.
constexpr std::string_view kKinds[] = {
    "_amp_foreach_non_finite_check_and_unscale", "_cudnn_init_dropout_state", "_foreach_add", "_foreach_addcdiv",
    "_foreach_addcmul", "_foreach_copy", "_foreach_div", "_foreach_lerp", "_foreach_maximum", "_foreach_mul",
    "_foreach_neg", "_foreach_sqrt", "_foreach_sub", "_fused_adagrad", "_fused_adam", "_fused_adamw", "_fused_sgd",
    "_local_scalar_dense", "_prelu_kernel", "_prelu_kernel_backward", "_reshape_alias",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention", "_to_copy", "_unsafe_view",
    "abs", "acos", "add", "addcdiv", "addcmul", "alias", "arange", "as_strided", "asin", "atan", "atan2", "bernoulli",
    "binary_cross_entropy_backward", "bitwise_and", "bitwise_not", "cat", "ceil", "celu", "chunk", "clamp",
    "clamp_min", "clone", "constant_pad_nd", "copy", "cos", "cosh", "cudnn_batch_norm", "cudnn_batch_norm_backward",
    "detach", "diag_embed", "diagonal", "diagonal_backward", "div", "elu", "elu_backward", "empty", "empty_like",
    "empty_strided", "eq", "erf", "exp", "exp2", "expand", "expm1", "eye", "fill", "flip", "floor", "fmax", "fmin",
    "fmod", "frac", "full", "full_like", "gather", "ge", "gelu", "gelu_backward", "glu", "glu_backward",
    "grid_sampler_2d", "grid_sampler_2d_backward", "gt", "hardshrink", "hardshrink_backward", "hardsigmoid",
    "hardsigmoid_backward", "hardswish", "hardswish_backward", "hardtanh", "hardtanh_backward", "huber_loss_backward",
    "hypot", "index", "index_add", "index_copy", "index_fill", "index_select", "isnan", "le", "leaky_relu",
    "leaky_relu_backward", "lerp", "lift_fresh", "linalg_cross", "linspace", "log", "log10", "log1p", "log2",
    "log_sigmoid_backward", "log_sigmoid_forward", "logical_and", "logical_not", "logical_or", "lt", "masked_fill",
    "maximum", "minimum", "mish", "mish_backward", "mse_loss_backward", "mul", "nan_to_num", "narrow",
    "native_dropout", "native_dropout_backward", "ne", "neg", "new_empty", "new_empty_strided", "new_full",
    "new_ones", "new_zeros", "ones", "ones_like", "permute", "pixel_shuffle", "pixel_unshuffle", "pow", "rand",
    "rand_like", "randn", "randn_like", "reciprocal", "reflection_pad1d_backward", "relu", "remainder", "repeat",
    "replication_pad2d", "replication_pad2d_backward", "round", "rsqrt", "rsub", "scalar_tensor", "scatter",
    "scatter_add", "select", "select_backward", "sgn", "sigmoid", "sigmoid_backward", "sign", "silu", "silu_backward",
    "sin", "sinh", "slice", "slice_backward", "smooth_l1_loss_backward", "softplus", "softplus_backward",
    "softshrink", "softshrink_backward", "split", "split_with_sizes", "sqrt", "square", "squeeze", "stack", "sub",
    "t", "tanh", "tanh_backward", "threshold_backward", "transpose", "tril", "triu", "trunc", "unbind", "unfold",
    "unsqueeze", "upsample_bicubic2d", "upsample_bilinear2d", "view", "view_as_complex", "view_as_real", "where",
    "xlogy", "zero", "zeros", "zeros_like",
};
static_assert(std::ranges::is_sorted(kKinds));

}  // namespace

bool NeedsNoScratch(std::string_view kind) {
  if (std::ranges::binary_search(kKinds, kind)) return true;
  if (!kind.ends_with('_')) return false;
  kind.remove_suffix(1);
  return std::ranges::binary_search(kKinds, kind);
}

}  // namespace ebbtide::estimate
