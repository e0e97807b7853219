#include "estimate/scratch.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "device/workspace_rules.h"
#include "graph/arguments.h"

namespace ebbtide::estimate {
namespace {

std::optional<ConvolutionType> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return ConvolutionType::kFloat16;
    case DType::kBFloat16: return ConvolutionType::kBFloat16;
    case DType::kFloat32: return ConvolutionType::kFloat32;
    case DType::kFloat64: return ConvolutionType::kFloat64;
    default: return std::nullopt;
  }
}

Dims SpatialOf(const Dims& shape) { return {shape.begin() + 2, shape.end()}; }

// One number stands for all axes.
Dims PerAxis(const Op& op, std::string_view name, std::size_t axes) {
  const Dims* values = ArgumentAs<Dims>(op, name);
  if (values == nullptr || values->empty()) return Dims(axes, 1);
  return values->size() == 1 ? Dims(axes, values->front()) : *values;
}

bool IsChannelsLast(const Tensor& tensor) {
  return tensor.shape.size() > 2 && tensor.stride[1] == 1 && tensor.shape[1] > 1 &&
         tensor.stride.back() == tensor.shape[1];
}

// PyTorch's own kernels, which need no room, take a planar depthwise convolution that is not of half precision.
bool IsNativeDepthwise(const ConvolutionProblem& problem) {
  return problem.input.size() == 2 && problem.groups > 1 && problem.groups == problem.in_channels &&
         problem.out_channels % problem.in_channels == 0 && !problem.is_channels_last &&
         problem.type == ConvolutionType::kFloat32;
}

// As a forward convolution has it: a transposed one computes its data gradient.
std::optional<ConvolutionProblem> ProblemOf(const TrainingGraph& graph, const Op& op, TensorId result) {
  const TensorId input = TensorArgument(op, "input"), weight = TensorArgument(op, "weight");
  if (!input.valid() || !weight.valid() || !result.valid()) return std::nullopt;
  const Tensor& in = graph.tensor(input);
  const Tensor& filter = graph.tensor(weight);
  const Tensor& out = graph.tensor(result);
  const std::size_t rank = in.shape.size();
  if (rank < 3 || rank > 5 || filter.shape.size() != rank || out.shape.size() != rank) return std::nullopt;
  const std::optional<ConvolutionType> type = TypeOf(in.dtype);
  if (!type) return std::nullopt;
  const bool* transposed = ArgumentAs<bool>(op, "transposed");
  const bool is_transposed = transposed != nullptr && *transposed;
  const Tensor& from = is_transposed ? out : in;
  const Tensor& to = is_transposed ? in : out;
  const std::int64_t* groups = ArgumentAs<std::int64_t>(op, "groups");
  ConvolutionProblem problem;
  problem.type = *type;
  problem.is_channels_last = IsChannelsLast(in);
  problem.batch = in.shape[0];
  problem.in_channels = from.shape[1];
  problem.out_channels = to.shape[1];
  problem.groups = groups ? *groups : 1;
  problem.input = SpatialOf(from.shape);
  problem.output = SpatialOf(to.shape);
  problem.filter = SpatialOf(filter.shape);
  problem.stride = PerAxis(op, "stride", rank - 2);
  problem.dilation = PerAxis(op, "dilation", rank - 2);
  problem.pass = is_transposed ? ConvolutionPass::kDataGradient : ConvolutionPass::kForward;
  if (!is_transposed && IsNativeDepthwise(problem)) return std::nullopt;
  return problem;
}

void Add(std::vector<Scratch>& scratch, std::size_t after_results, Bytes bytes) {
  if (bytes > 0) scratch.push_back({after_results, bytes});
}

std::vector<Scratch> ForwardConvolution(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu) {
  std::vector<Scratch> scratch;
  if (const auto problem = ProblemOf(graph, op, op.outputs.front())) {
    Add(scratch, 1, ConvolutionWorkspace(*problem, gpu));
  }
  return scratch;
}

// The gradient of the input, if it is wanted, then that of the filter; the bias's is a plain sum.
std::vector<Scratch> BackwardConvolution(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu) {
  std::vector<Scratch> scratch;
  TensorId grad = TensorArgument(op, "grad_output");
  if (!grad.valid()) grad = TensorArgument(op, "grad");
  auto problem = ProblemOf(graph, op, grad);
  if (!problem) return scratch;
  const Tensor& input = graph.tensor(TensorArgument(op, "input"));
  const Tensor& weight = graph.tensor(TensorArgument(op, "weight"));
  const bool is_transposed = problem->pass == ConvolutionPass::kDataGradient;
  std::size_t results = 0;
  for (TensorId output : op.outputs) {
    const Tensor& made = graph.tensor(output);
    ++results;
    if (made.shape == input.shape) {
      problem->pass = is_transposed ? ConvolutionPass::kForward : ConvolutionPass::kDataGradient;
    } else if (made.shape == weight.shape) {
      problem->pass = ConvolutionPass::kFilterGradient;
    } else {
      continue;
    }
    Add(scratch, results, ConvolutionWorkspace(*problem, gpu));
  }
  return scratch;
}

struct Rule {
  std::string_view kind;
  std::vector<Scratch> (*scratch)(const TrainingGraph&, const Op&, const DeviceProfile&);
};
constexpr Rule kRules[] = {
    {"convolution", ForwardConvolution},
    {"convolution_backward", BackwardConvolution},
};

constexpr std::string_view kCublasKinds[] = {"addmm", "mm", "bmm", "baddbmm",   "addbmm",
                                             "addmv", "mv", "dot", "_cudnn_rnn"};

}  // namespace

std::vector<Scratch> ScratchOf(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu) {
  for (const Rule& rule : kRules) {
    if (op.kind == rule.kind) return rule.scratch(graph, op, gpu);
  }
  if (op.workspace > 0) return {{op.outputs.size(), op.workspace}};
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
