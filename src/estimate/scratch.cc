// The table from kinds of op to their rules, and the rules for layer norm, softmax and embedding.
#include "estimate/scratch.h"

#include <algorithm>
#include <iterator>
#include <limits>
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
};

// In the order of their kinds.
constexpr Row kRules[] = {
    {"_cudnn_rnn", RecurrentScratch},
    {"_cudnn_rnn_backward", RecurrentBackwardScratch},
    {"_scaled_dot_product_efficient_attention_backward", EfficientAttentionBackwardScratch},
    {"_scaled_dot_product_flash_attention_backward", FlashAttentionBackwardScratch},
    {"_softmax_backward_data", SoftmaxBackwardScratch},
    {"amax", ReductionScratch},
    {"amin", ReductionScratch},
    {"convolution", ConvolutionScratch},
    {"convolution_backward", ConvolutionBackwardScratch},
    {"embedding", EmbeddingScratch},
    {"linalg_vector_norm", ReductionScratch},
    {"mean", ReductionScratch},
    {"native_layer_norm", LayerNormScratch},
    {"native_layer_norm_backward", LayerNormBackwardScratch},
    {"prod", ReductionScratch},
    {"sum", ReductionScratch},
};
static_assert(std::ranges::is_sorted(kRules, {}, &Row::kind));

constexpr std::string_view kCublasKinds[] = {"addmm",  "mm",    "matmul", "bmm", "baddbmm",
                                             "addbmm", "addmv", "mv",     "dot", "_cudnn_rnn"};

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

// The gradient times the result.
void SoftmaxBackwardScratch(const ScratchQuery& query, ScratchList& scratch) {
  scratch.Take(1, SizeOf(query.graph.tensor(query.op.outputs.front())));
}

void EmbeddingScratch(const ScratchQuery& query, ScratchList& scratch) {
  scratch.Take(0, RowMajorCopy(query.Argument("indices")));
}

std::vector<Scratch> ScratchOf(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu) {
  const auto row = std::ranges::lower_bound(kRules, op.kind, {}, &Row::kind);
  if (row != std::end(kRules) && row->kind == op.kind && !op.outputs.empty()) {
    ScratchList scratch;
    row->rule({graph, op, gpu}, scratch);
    return std::move(scratch.taken());
  }
  if (op.workspace > 0) return {{op.outputs.size(), op.workspace, 0, 0}};
  return {};
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
