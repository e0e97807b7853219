// One row per forward op (or per family with the same rule).
//
//   op     ATen kinds, separated by spaces
//   cpu    what the autograd node of the CPU kernel keeps until its backward has run: argument names, `result`,
//          `result1`, ... for the outputs, `original` for the copy made before an in-place op. A name is kept only if
//          a gradient that reads it is asked for. "-": the CPU does not use this op.
//   cuda   the same for CUDA kernels; "=": as on the CPU.
//   backward  statements `inputs = kernel(operands)`, separated by ';', in the order in which PyTorch runs them.
//          `grad` is the gradient of the first output. Kernels of one element per element (mul, neg, ...) are computed
//          in the shape of their operands and summed down to the input's; products have the shape of a product; any
//          other kernel yields tensors shaped like its targets, or, with a name that ends in '_', writes the gradient
//          over its first operand. `grads` are the gradients of all outputs. Functions on gradients that move no data:
//            reshaped      grad in the shape of the input        transposed, unpermuted   the inverse view
//            expanded      a reduced gradient spread out again    parts    one view per tensor of a list
//            overwritten   its first operand's storage, with the gradient in it
//            joined        the gradients of all outputs, concatenated (`stacked`: along a new axis)
//          "": no gradient flows through this op.
#include "model/gradient_rules.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <unordered_map>

namespace ebbtide::model {

namespace {

struct Row {
  const char* op;
  const char* cpu;
  const char* cuda;
  const char* backward;
};

// clang-format off
constexpr Row kTable[] = {
    // ---- matrix products
    {"mm",       "self mat2",  "=", "mat2 = mm(t(self), grad); self = mm(grad, t(mat2))"},
    {"bmm",      "self mat2",  "=", "mat2 = bmm(mt(self), grad); self = bmm(grad, mt(mat2))"},
    {"addmm",    "mat1 mat2",  "=", "mat1 = mm(grad, t(mat2)); mat2 = mm(t(mat1), grad); self = same(grad)"},
    {"baddbmm",  "batch1 batch2", "=", "batch1 = bmm(grad, mt(batch2)); batch2 = bmm(mt(batch1), grad); self = same(grad)"},
    {"_grouped_mm", "self mat2 offs", "=", "mat2 = _grouped_mm(grad, self, offs); self = _grouped_mm(grad, mat2, offs)"},
    {"convolution", "input weight", "=", "input weight bias = convolution_backward(grad, input, weight)"},

    {"quantized_linear", "", "=", "input = quantized_linear_backward(grad)"},
    {"int8_linear", "input", "=", "input = quantized_linear_backward(grad, input)"},  // bitsandbytes keeps it, though the gradient needs it not

    // ---- normalisation
    {"native_batch_norm", "input weight running_mean running_var result1 result2", "-",
     "input weight bias = native_batch_norm_backward(grad, input, weight, running_mean, running_var, result1, result2)"},
    {"cudnn_batch_norm", "-", "input weight running_mean running_var result1 result2 result3",
     "input weight bias = cudnn_batch_norm_backward(input, grad, weight, running_mean, running_var, result1, result2, result3)"},
    {"native_layer_norm", "input weight bias result1 result2", "=",
     "input weight bias = native_layer_norm_backward(grad, input, result1, result2, weight, bias)"},
    {"native_group_norm", "input weight result1 result2", "=",
     "input weight bias = native_group_norm_backward(grad, input, result1, result2, weight)"},
    {"_fused_rms_norm", "input weight result1", "=", "input weight = _fused_rms_norm_backward(grad, input, result1, weight)"},

    // ---- activations
    {"relu relu_",                "result",   "=", "self = threshold_backward(grad, result)"},
    {"hardtanh_",                 "original", "=", "self = hardtanh_backward(grad, original)"},
    {"hardtanh clamp",            "self",     "=", "self = hardtanh_backward(grad, self)"},
    {"leaky_relu",                "self",     "=", "self = leaky_relu_backward(grad, self)"},
    {"leaky_relu_",               "result",   "=", "self = leaky_relu_backward(grad, result)"},
    {"elu",                       "self",     "=", "self = elu_backward(grad, self)"},
    {"elu_",                      "result",   "=", "self = elu_backward(grad, result)"},
    {"gelu",                      "self",     "=", "self = gelu_backward(grad, self)"},
    {"silu",                      "self",     "=", "self = silu_backward(grad, self)"},
    {"silu_",                     "original", "=", "self = silu_backward(grad, original)"},
    {"hardswish",                 "self",     "=", "self = hardswish_backward(grad, self)"},
    {"hardswish_",                "original", "=", "self = hardswish_backward(grad, original)"},
    {"hardsigmoid",               "self",     "=", "self = hardsigmoid_backward(grad, self)"},
    {"hardsigmoid_",              "original", "=", "self = hardsigmoid_backward(grad, original)"},
    {"mish",                      "self",     "=", "self = mish_backward(grad, self)"},
    {"_prelu_kernel",             "self weight", "=", "self weight = _prelu_kernel_backward(self, weight, grad)"},
    {"softplus",                  "self",     "=", "self = softplus_backward(grad, self)"},
    {"sigmoid sigmoid_",          "result",   "=", "self = sigmoid_backward(grad, result)"},
    {"tanh tanh_",                "result",   "=", "self = tanh_backward(grad, result)"},
    {"_softmax _safe_softmax",    "result",   "=", "self = _softmax_backward_data(grad, result)"},
    {"_log_softmax",              "result",   "=", "self = _log_softmax_backward_data(grad, result)"},

    // ---- element-wise arithmetic
    {"add add_ ",     "",            "=", "other = same(grad); self = same(grad)"},
    {"sub sub_",      "",            "=", "other = neg(grad); self = same(grad)"},
    {"rsub",          "",            "=", "other = same(grad); self = neg(grad)"},
    {"mul mul_",      "self other",  "=", "other = mul(grad, self); self = mul(grad, other)"},
    {"div div_",      "self other",  "=", "other = mul(neg(grad), div(div(self, other), other)); self = div(grad, other)"},
    {"neg",           "",            "=", "self = neg(grad)"},
    {"pow",           "self",        "=", "self = mul(grad, mul(pow(self)))"},
    {"square",        "self",        "=", "self = mul(grad, mul(pow(self)))"},
    {"sqrt",          "result",      "=", "self = div(grad, mul(result))"},
    {"rsqrt",         "result",      "=", "self = mul(mul(grad), pow(result))"},
    {"reciprocal",    "result",      "=", "self = mul(neg(grad), mul(result, result))"},
    {"exp",           "result",      "=", "self = mul(grad, result)"},
    {"log",           "self",        "=", "self = div(grad, self)"},
    {"erf",           "self",        "=", "self = mul(mul(exp(neg(pow(self)))), grad)"},
    {"abs",           "self",        "=", "self = mul(grad, sgn(self))"},
    {"sin",           "self",        "=", "self = mul(grad, cos(self))"},
    {"cos",           "self",        "=", "self = mul(grad, neg(sin(self)))"},
    {"maximum minimum", "self other", "=", "other = masked_fill(grad, ge(self, other)); self = masked_fill(grad, ge(self, other))"},
    {"where",         "condition",   "=", "other = where(condition, grad); self = where(condition, grad)"},
    {"masked_fill",   "mask",        "=", "self = masked_fill(grad, mask)"},
    {"masked_fill_",  "mask",        "=", "self = masked_fill(grad, mask)"},
    {"native_dropout", "-",     "result1", "input = native_dropout_backward(grad, result1)"},
    {"remainder",     "",            "=", "self = same(grad)"},
    {"_to_copy",      "",            "=", "self = _to_copy(grad)"},
    {"assumed_elementwise", "inputs", "=", "inputs = assumed_elementwise_backward(grad, inputs)"},

    // ---- reductions
    {"mean",          "",            "=", "self = div(expanded(grad))"},
    {"sum",           "",            "=", "self = expanded(grad)"},
    {"amax amin",     "self result", "=", "self = mul(expanded(grad), eq(self, expanded(result)))"},
    {"prod logsumexp linalg_vector_norm", "self result", "=", "self = reduction_backward(grad, self, result)"},
    {"topk max",      "result1",     "=", "self = value_selecting_reduction_backward(grad, result1)"},
    {"cumsum",        "",            "=", "self = flipped_cumsum(grad)"},

    // ---- views and copies
    {"view _unsafe_view unsqueeze squeeze alias", "", "=", "self = reshaped(grad)"},
    {"clone",            "",         "=", "self = same(grad)"},
    {"transpose t",      "",         "=", "self = transposed(grad)"},
    {"permute",          "",         "=", "self = unpermuted(grad)"},
    {"expand",           "",         "=", "self = same(grad)"},
    {"slice",            "",         "=", "self = slice_backward(grad)"},
    {"select",           "",         "=", "self = select_backward(grad)"},
    {"split split_with_sizes", "",   "=", "self = joined(grads)"},
    {"unbind",           "",         "=", "self = stacked(grads)"},
    {"cat stack",        "",         "=", "tensors = parts(grad)"},
    {"repeat",           "",         "=", "self = repeat_backward(grad)"},
    {"tril triu",        "",         "=", "self = trilu_backward(grad)"},
    {"scatter index_put", "index",   "=", "self = scatter_backward(grad, index); values = gather(grad, index)"},
    {"index_add_",       "index",    "=", "source = index_select(grad, index); self = same(grad)"},
    {"constant_pad_nd",  "",         "=", "self = constant_pad_nd_backward(grad)"},
    {"roll flip",        "",         "=", "self = roll(grad)"},
    {"gather",           "index",    "=", "self = gather_backward(grad, index)"},
    {"index",            "indices",  "=", "self = index_put_backward(grad, indices)"},
    {"index_select",     "index",    "=", "self = index_select_backward(grad, index)"},

    // ---- pooling and resizing
    {"max_pool2d_with_indices", "self result1", "=", "self = max_pool2d_with_indices_backward(grad, self, result1)"},
    {"avg_pool2d",              "self",         "=", "self = avg_pool2d_backward(grad, self)"},
    {"_adaptive_avg_pool2d",    "self",         "=", "self = _adaptive_avg_pool2d_backward(grad, self)"},
    {"max_pool3d_with_indices", "self result1", "=", "self = max_pool3d_with_indices_backward(grad, self, result1)"},
    {"avg_pool3d",              "self",         "=", "self = avg_pool3d_backward(grad, self)"},
    {"reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d", "self", "=",
     "self = pad_backward(grad, self)"},
    {"upsample_nearest1d upsample_linear1d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_nearest3d "
     "upsample_trilinear3d", "", "=", "self = upsample_backward(grad)"},
    {"pixel_shuffle pixel_unshuffle", "",       "=", "self = pixel_shuffle_backward(grad)"},

    // ---- embedding, attention, recurrence
    {"embedding", "indices", "=", "weight = embedding_dense_backward(grad, indices)"},
    {"_scaled_dot_product_flash_attention_for_cpu", "query key value result result1 attn_mask", "-",
     "query key value = _scaled_dot_product_flash_attention_for_cpu_backward(grad, query, key, value, result, result1, attn_mask)"},
    {"_scaled_dot_product_efficient_attention", "-", "query key value attn_bias result result1 result2 result3",
     "query key value attn_bias = _scaled_dot_product_efficient_attention_backward(grad, query, key, value, attn_bias, result, result1, result2, "
     "result3)"},
    {"_scaled_dot_product_flash_attention", "-", "query key value result result1 result2 result3",
     "query key value = _scaled_dot_product_flash_attention_backward(grad, query, key, value, result, result1, result2, result3)"},
    {"mkldnn_rnn_layer", "input weight0 weight1 weight2 weight3 hx_ cx_ result result1 result2 result3", "-",
     "input weight0 weight1 weight2 weight3 = mkldnn_rnn_layer_backward(input, weight0, weight1, weight2, weight3, hx_, cx_, "
     "result, result1, result2, grad, result3)"},
    {"_cudnn_rnn", "-", "input weight hx cx result result3 result4",
     "input weight = _cudnn_rnn_backward(input, weight, result4, hx, cx, result, grad, result3)"},

    // ---- Triton kernels of Liger and fms-acceleration: gradients written over what is read
    {"triton_rms_norm", "input weight result1", "=",
     "weight = triton_rms_norm_weight_backward(grad, input, result1); input = overwritten(grad, input, weight, result1)"},
    {"fused_lora_gptq4", "input a b result1 result3 result5", "=",
     "a b = fused_lora_weights_backward(grads, input, result1, result3, result5, a, b); "
     "input = fused_lora_gptq4_input_backward(grads, input, result1, result3, result5, a, b)"},
    {"fused_lora_nf4", "input a b result1", "=",
     "a b = fused_lora_weights_backward(grads, input, result1, a, b); "
     "input = fused_lora_nf4_input_backward(grads, input, result1, a, b)"},
    {"fused_lora_nf4_", "input a b result1 result3 result5", "=",
     "a b = fused_lora_weights_backward(grads, input, result1, result3, result5, a, b); "
     "input = fused_lora_nf4_input_backward_(input, grads, result1, result3, result5, a, b)"},
    {"triton_rope_",     "cos sin",     "=", "self = overwritten(grad, cos, sin)"},
    {"triton_silu_mul",  "self other",  "=", "other = overwritten(other, grad, self); self = overwritten(self, grad)"},
    {"triton_cross_entropy", "self target result1", "=", "self = overwritten(self, grad, target, result1)"},
    {"liger_linear_cross_entropy", "result1 result2", "=", "weight = overwritten(result2, grad); self = overwritten(result1, grad)"},
    {"cut_cross_entropy", "self weight target result1", "=",
     "self weight = cut_cross_entropy_backward(grad, self, weight, target, result1)"},

    // ---- losses
    {"nll_loss_forward",   "self target result1", "=", "self = nll_loss_backward(grad, self, target, result1)"},
    {"nll_loss2d_forward", "self target result1", "=", "self = nll_loss2d_backward(grad, self, target, result1)"},

    // ---- no gradient flows
    {"empty_like zeros_like ones_like new_ones detach argmax argmin eq ne ge gt le lt logical_not logical_and logical_or "
     "logical_xor isnan isinf one_hot shape bernoulli bernoulli_ floor ceil round sign", "", "=", ""},
};
// clang-format on

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (char c : text) {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// kernel(operand, kernel(operand), ...). The table is ours: what cannot be read is a mistake in it.
class FormulaReader {
 public:
  explicit FormulaReader(std::string_view text) : text_(text) {}

  Formula Read() {
    Formula formula;
    SkipSpace();
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      formula.name += text_[at_++];
    }
    if (formula.name.empty()) std::abort();
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != '(') return formula;
    formula.is_call = true;
    do {
      ++at_;
      formula.operands.push_back(Read());
      SkipSpace();
    } while (text_.at(at_) == ',');
    if (text_.at(at_++) != ')') std::abort();
    return formula;
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

std::vector<GradientStatement> ReadStatements(std::string_view text) {
  std::vector<GradientStatement> statements;
  while (!text.empty()) {
    std::string_view statement = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), statement.size() + 1));
    std::size_t equals = statement.find('=');
    Formula formula = FormulaReader(statement.substr(equals + 1)).Read();
    std::vector<std::string> reads = NamesRead(formula);
    statements.push_back({Words(statement.substr(0, equals)), std::move(formula), std::move(reads)});
  }
  return statements;
}

// Where a whole word of a row begins.
std::size_t PlaceOfWord(std::string_view text, std::string_view word) {
  for (std::size_t at = 0;; at = text.find(' ', at) + 1) {
    const std::string_view rest = text.substr(at);
    if (rest.substr(0, rest.find(' ')) == word) return at;
  }
}

// The kinds' names are the table's own rows, cut at spaces; every recorded op looks its rule up several times.
const std::unordered_map<std::string_view, GradientRule>& Rules() {
  static const auto* rules = [] {
    auto* map = new std::unordered_map<std::string_view, GradientRule>;
    for (const Row& row : kTable) {
      GradientRule rule;
      std::string_view cpu = row.cpu, cuda = row.cuda;
      rule.on_cpu = cpu != "-";
      rule.on_cuda = cuda != "-";
      if (rule.on_cpu) rule.cpu_saves = Words(cpu);
      if (rule.on_cuda) rule.cuda_saves = cuda == "=" ? rule.cpu_saves : Words(cuda);
      rule.backward = ReadStatements(row.backward);
      for (const std::string& kind : Words(row.op)) {
        const std::string_view text = row.op;
        map->emplace(text.substr(PlaceOfWord(text, kind), kind.size()), rule);
      }
    }
    return map;
  }();
  return *rules;
}

}  // namespace

const GradientRule* FindGradientRule(std::string_view kind) {
  auto found = Rules().find(kind);
  return found == Rules().end() ? nullptr : &found->second;
}

std::vector<std::string> GradientRuleKinds() {
  std::vector<std::string> kinds;
  for (const Row& row : kTable) {
    for (std::string& kind : Words(row.op)) kinds.push_back(std::move(kind));
  }
  return kinds;
}

std::vector<std::string> NamesRead(const Formula& formula) {
  if (!formula.is_call) return {formula.name};
  std::vector<std::string> names;
  for (const Formula& operand : formula.operands) {
    for (std::string& name : NamesRead(operand)) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace ebbtide::model
