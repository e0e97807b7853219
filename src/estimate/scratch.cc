// The table from kinds of op to their rules, and the rules for layer norm, softmax and embedding.
#include "estimate/scratch.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>

#include "device/workspace_rules.h"
#include "estimate/scratch_rules.h"
#include "graph/arguments.h"
#include "graph/dtype.h"
#include "graph/shape.h"

namespace ebbtide::estimate {
namespace {

struct Row {
  std::string_view kind;
  ScratchRule rule;
  Layout layout = Layout::kAny;
};

// In the order of their kinds.
constexpr Row kRules[] = {
    {"_adaptive_avg_pool2d", CopiesScratch, Layout::kPlanar},
    {"_adaptive_avg_pool2d_backward", GradientCopyScratch, Layout::kPlanar},
    {"_cudnn_rnn", RecurrentScratch},
    {"_cudnn_rnn_backward", RecurrentBackwardScratch},
    {"_log_softmax", CopiesScratch},
    {"_log_softmax_backward_data", CopiesScratch},
    {"_scaled_dot_product_efficient_attention_backward", EfficientAttentionBackwardScratch, Layout::kDenseFirst},
    {"_scaled_dot_product_flash_attention", FlashAttentionScratch},
    {"_scaled_dot_product_flash_attention_backward", FlashAttentionBackwardScratch, Layout::kDenseFirst},
    {"_softmax", CopiesScratch},
    {"_softmax_backward_data", SoftmaxBackwardScratch},
    {"amax", ReductionScratch},
    {"amin", ReductionScratch},
    {"avg_pool2d", CopiesScratch, Layout::kPlanar},
    {"avg_pool2d_backward", CopiesScratch, Layout::kPlanar},
    {"convolution", ConvolutionScratch, Layout::kImages},
    {"convolution_backward", ConvolutionBackwardScratch, Layout::kImages},
    {"embedding", EmbeddingScratch},
    {"embedding_dense_backward", EmbeddingBackwardScratch},
    {"fused_lora_gptq4", FusedLoraScratch},
    {"fused_lora_gptq4_input_backward", FusedLoraInputBackwardScratch},
    {"fused_lora_nf4", FusedLoraScratch},
    {"fused_lora_nf4_", FusedLoraScratch},
    {"fused_lora_nf4_input_backward", FusedLoraInputBackwardScratch},
    {"fused_lora_nf4_input_backward_", FusedLoraInputBackwardScratch},
    {"fused_lora_weights_backward", FusedLoraWeightsBackwardScratch},
    {"linalg_vector_norm", ReductionScratch},
    {"max_pool2d_with_indices", CopiesScratch, Layout::kPlanar},
    {"max_pool2d_with_indices_backward", CopiesScratch, Layout::kPlanar},
    {"mean", ReductionScratch},
    {"native_layer_norm", LayerNormScratch},
    {"native_layer_norm_backward", LayerNormBackwardScratch},
    {"nll_loss2d_backward", CopiesScratch},
    {"nll_loss2d_forward", CopiesScratch},
    {"nll_loss_backward", CopiesScratch},
    {"nll_loss_forward", CopiesScratch},
    {"prod", ReductionScratch},
    {"quantized_linear", QuantizedLinearScratch},
    {"quantized_linear_backward", QuantizedLinearScratch},
    {"sum", ReductionScratch},
};
static_assert(std::ranges::is_sorted(kRules, {}, &Row::kind));

constexpr std::string_view kCublasKinds[] = {
    "addmm", "mm", "matmul", "bmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "_cudnn_rnn",
    // of bitsandbytes, GPTQ and Liger, which call it
    "quantized_linear", "quantized_linear_backward", "liger_linear_cross_entropy",
    // and of fms-acceleration's adapters
    "fused_lora_gptq4", "fused_lora_gptq4_input_backward", "fused_lora_nf4", "fused_lora_nf4_",
    "fused_lora_nf4_input_backward", "fused_lora_nf4_input_backward_", "fused_lora_weights_backward"};

const Row* RowOf(std::string_view kind) {
  const auto row = std::ranges::lower_bound(kRules, kind, {}, &Row::kind);
  return row != std::end(kRules) && row->kind == kind ? &*row : nullptr;
}

constexpr Bytes kBlock = 512;  // to which PyTorch rounds requests

// No axis stands for several elements that are one in memory.
bool IsDense(const Tensor& tensor) {
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.stride[i] == 0 && tensor.shape[i] > 1) return false;
  }
  return true;
}

Tensor WithoutBatch(Tensor tensor) {
  if (tensor.shape.size() < 3) return tensor;
  tensor.shape.erase(tensor.shape.begin());
  tensor.stride.erase(tensor.stride.begin());
  return tensor;
}

bool LiesSo(const Tensor& tensor, Layout layout) {
  switch (layout) {
    case Layout::kAny: return true;
    case Layout::kDense:
    case Layout::kDenseFirst: return IsDense(tensor);
    case Layout::kPlanar: return IsRowMajor(tensor) || !IsChannelsLast(tensor);
    case Layout::kImages:
      return IsRowMajor(WithoutBatch(tensor)) || (tensor.shape.size() > 3 && IsChannelsLast(tensor));
  }
  return false;
}

bool LiesSo(const TrainingGraph& graph, const Op& op, Layout layout) {
  const std::size_t looked_at =
      std::min<std::size_t>(layout == Layout::kDenseFirst ? 1 : op.inputs.size(), op.inputs.size());
  return std::ranges::all_of(std::span(op.inputs).first(looked_at),
                             [&](TensorId id) { return LiesSo(graph.tensor(id), layout); });
}

Bytes RowMajorCopy(const Tensor* tensor) { return tensor == nullptr || IsRowMajor(*tensor) ? 0 : SizeOf(*tensor); }

}  // namespace

const Tensor* ScratchQuery::Argument(std::string_view name) const {
  const TensorId id = TensorArgument(op, name);
  return id.valid() ? &graph.tensor(id) : nullptr;
}

Bytes SizeOf(const Tensor& tensor) {
  return SaturatingMul(ElementCount(tensor.shape).value_or(std::numeric_limits<Bytes>::max()), ItemSize(tensor.dtype));
}

bool IsRowMajor(const Tensor& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] == 1) continue;
    if (tensor.stride[i] != expected) return false;
    expected = SaturatingMul(expected, tensor.shape[i]);
  }
  return true;
}

bool IsChannelsLast(const Tensor& tensor) {
  return tensor.shape.size() > 2 && tensor.stride[1] == 1 && tensor.shape[1] > 1 &&
         tensor.stride.back() == tensor.shape[1];
}

void LayerNormScratch(const ScratchQuery& query, ScratchList& scratch) {
  scratch.Take(0, RowMajorCopy(query.Argument("input")));
}

void LayerNormBackwardScratch(const ScratchQuery& query, ScratchList& scratch) {
  const Tensor* grad = query.Argument("grad_out");
  scratch.Take(0, RowMajorCopy(grad != nullptr ? grad : query.Argument("grad")));
  scratch.Take(0, RowMajorCopy(query.Argument("input")));
}

void CopiesScratch(const ScratchQuery& query, ScratchList& scratch) {
  for (const TensorId id : query.op.inputs) scratch.Take(0, RowMajorCopy(&query.graph.tensor(id)));
}

void GradientCopyScratch(const ScratchQuery& query, ScratchList& scratch) {
  scratch.Take(0, query.op.inputs.empty() ? 0 : RowMajorCopy(&query.graph.tensor(query.op.inputs.front())));
}

// The gradient times the result.
void SoftmaxBackwardScratch(const ScratchQuery& query, ScratchList& scratch) {
  scratch.Take(1, SizeOf(query.graph.tensor(query.op.outputs.front())));
}

void EmbeddingScratch(const ScratchQuery& query, ScratchList& scratch) {
  scratch.Take(0, RowMajorCopy(query.Argument("indices")));
}

// Few indices are added up as they come. Many are sorted, and rows that many add to are summed in parts of ten: where
// each index goes and came from, where its segment and its part begin, and the parts themselves in float32.
void EmbeddingBackwardScratch(const ScratchQuery& query, ScratchList& scratch) {
  constexpr std::int64_t kFew = 3072, kRowsOfPart = 10, kWarp = 32, kIndex = 8, kFloat = 4;
  const Tensor* grad = query.Argument("grad_output");
  if (grad == nullptr) grad = query.Argument("grad");
  const Tensor* indices = query.Argument("indices");
  const Tensor& result = query.graph.tensor(query.op.outputs.front());
  if (grad == nullptr || indices == nullptr || result.shape.size() != 2) return;
  scratch.Take(0, RowMajorCopy(grad));
  scratch.Take(0, RowMajorCopy(indices));
  const std::int64_t count = ElementCount(indices->shape).value_or(std::numeric_limits<std::int64_t>::max());
  if (count <= kFew) return;
  const std::int64_t segments = std::min(count, result.shape[0]), parts = count / kRowsOfPart + segments;
  for (int i = 0; i < 3; ++i) scratch.Take(1, SaturatingMul(count, kIndex));
  for (const std::int64_t numbers : {std::int64_t{1}, segments, segments, std::int64_t{1}, parts}) {
    scratch.Take(1, SaturatingMul(numbers, kIndex));
  }
  scratch.Take(1, SaturatingMul(parts, SaturatingMul(RoundUp(result.shape[1], kWarp), kFloat)));
}

std::vector<Scratch> ScratchOf(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu) {
  const Row* const row = RowOf(op.kind);
  const bool is_measured = op.workspace > 0 && !KnowsScratchOf(graph, op);
  if (row != nullptr && !is_measured && !op.outputs.empty()) {
    ScratchList scratch;
    row->rule({graph, op, gpu}, scratch);
    return std::move(scratch.taken());
  }
  // What was measured of a matrix product has cuBLAS's workspace in it, which is counted apart.
  const Bytes own = op.workspace - (is_measured ? RoundUp(BlasScratchOf(graph, op, gpu), kBlock) : 0);
  if (own > 0) return {{op.outputs.size(), own, 0, 0}};
  return {};
}

namespace {

// Kernels of their own, which were not looked at.
bool ReadsComplex(const TrainingGraph& graph, const Op& op) {
  return std::ranges::any_of(op.inputs, [&](TensorId id) { return graph.tensor(id).dtype >= DType::kComplex64; });
}

}  // namespace

bool KnowsScratchOf(const TrainingGraph& graph, const Op& op) {
  if (const Row* const row = RowOf(op.kind)) return LiesSo(graph, op, row->layout);
  if (UsesCublas(op)) return LiesSo(graph, op, Layout::kDense);
  return !ReadsComplex(graph, op) && NeedsNoScratch(op.kind);
}

bool ScratchKnowledge::Of(const TrainingGraph& graph, const Op& op) {
  const auto [found, is_new] = kinds_.try_emplace(op.kind);
  if (is_new) {
    const bool by_layout = RowOf(op.kind) != nullptr || UsesCublas(op);
    found->second = by_layout ? Kind::kByLayout : NeedsNoScratch(op.kind) ? Kind::kNeedsNone : Kind::kUnknown;
  }
  if (found->second == Kind::kUnknown) return false;
  return found->second == Kind::kByLayout ? KnowsScratchOf(graph, op) : !ReadsComplex(graph, op);
}

Bytes BlasScratchOf(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu) {
  // PyTorch's default for cuBLASLt (CUBLASLT_WORKSPACE_SIZE), which takes products with a bias vector.
  constexpr Bytes kBlasLtWorkspace = Bytes{1} << 20;
  if (!UsesCublas(op) || op.kind == "_cudnn_rnn") return 0;
  const TensorId bias = TensorArgument(op, "self");
  const bool has_bias_vector = op.kind == "addmm" && bias.valid() && graph.tensor(bias).shape.size() == 1;
  return has_bias_vector ? std::min(kBlasLtWorkspace, BlasWorkspace(gpu)) : BlasWorkspace(gpu);
}

bool UsesCublas(const Op& op) { return std::ranges::find(kCublasKinds, op.kind) != std::end(kCublasKinds); }

}  // namespace ebbtide::estimate
