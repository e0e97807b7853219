#include "estimate/scratch.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "device/workspace_rules.h"
#include "estimate/scratch_rules.h"
#include "graph/arguments.h"
#include "graph/dtype.h"
#include "graph/shape.h"

namespace ebbtide::estimate {
namespace {

using RuleTable = std::unordered_map<std::string_view, ScratchRule>;

const RuleTable& Rules() {
  static const RuleTable* table = new RuleTable{
      {"convolution", ConvolutionScratch},
      {"convolution_backward", ConvolutionBackwardScratch},
      {"sum", ReductionScratch},
      {"mean", ReductionScratch},
      {"amax", ReductionScratch},
      {"amin", ReductionScratch},
      {"prod", ReductionScratch},
      {"linalg_vector_norm", ReductionScratch},
      {"native_layer_norm", LayerNormScratch},
      {"native_layer_norm_backward", LayerNormBackwardScratch},
      {"embedding", EmbeddingScratch},
      {"_scaled_dot_product_flash_attention_backward", FlashAttentionBackwardScratch},
      {"_cudnn_rnn", RecurrentScratch},
      {"_cudnn_rnn_backward", RecurrentBackwardScratch},
  };
  return *table;
}

constexpr std::string_view kCublasKinds[] = {"addmm", "mm", "bmm", "baddbmm",   "addbmm",
                                             "addmv", "mv", "dot", "_cudnn_rnn"};

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

void EmbeddingScratch(const ScratchQuery& query, ScratchList& scratch) {
  scratch.Take(0, RowMajorCopy(query.Argument("indices")));
}

// Row sums, for a multiple of 128 queries; the gradient of the query, its heads widened to a multiple of 32; and keys
// and values for each query head, where several share one.
void FlashAttentionBackwardScratch(const ScratchQuery& query, ScratchList& scratch) {
  const Tensor* queries = query.Argument("query");
  const Tensor* keys = query.Argument("key");
  if (queries == nullptr || keys == nullptr || queries->shape.size() != 4 || keys->shape.size() != 4) return;
  const auto up_to = [](std::int64_t value, std::int64_t step) { return (value / step + (value % step != 0)) * step; };
  const std::int64_t heads = SaturatingMul(queries->shape[0], queries->shape[1]);
  const std::int64_t rows = SaturatingMul(heads, up_to(queries->shape[2], 128));
  const std::int64_t width = queries->shape[3] <= 192 ? up_to(queries->shape[3], 32) : 256;
  const std::size_t results = query.op.outputs.size();
  scratch.Take(results, SaturatingMul(rows, ItemSize(DType::kFloat32)));
  scratch.Take(results, SaturatingMul(rows, width * ItemSize(DType::kFloat32)));
  if (keys->shape[1] == queries->shape[1]) return;
  const Bytes widened = SaturatingMul(SaturatingMul(heads, keys->shape[2]), keys->shape[3] * ItemSize(keys->dtype));
  scratch.Take(results, widened);
  scratch.Take(results, widened);
}

std::vector<Scratch> ScratchOf(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu) {
  if (const auto rule = Rules().find(op.kind); rule != Rules().end() && !op.outputs.empty()) {
    ScratchList scratch;
    rule->second({graph, op, gpu}, scratch);
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
