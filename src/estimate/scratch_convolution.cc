// Convolutions: the workspace that cuDNN takes, and copies of tensors that do not lie as it reads them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "device/workspace_rules.h"
#include "estimate/scratch_rules.h"
#include "graph/arguments.h"

namespace ebbtide::estimate {
namespace {

Dims SpatialOf(const Dims& shape) { return {shape.begin() + 2, shape.end()}; }

// One number stands for all axes.
Dims PerAxis(const Op& op, std::string_view name, std::size_t axes) {
  const Dims* values = ArgumentAs<Dims>(op, name);
  if (values == nullptr || values->empty()) return Dims(axes, 1);
  return values->size() == 1 ? Dims(axes, values->front()) : *values;
}

// PyTorch's own kernels, which need no room, take a planar depthwise convolution that is not of half precision.
bool IsNativeDepthwise(const ConvolutionProblem& problem) {
  return problem.input.size() == 2 && problem.groups > 1 && problem.groups == problem.in_channels &&
         problem.out_channels % problem.in_channels == 0 && !problem.is_channels_last &&
         problem.type == ConvolutionType::kFloat32;
}

struct Convolution {
  ConvolutionProblem problem;
  const Tensor& input;
  const Tensor& weight;
};

// As a forward convolution has it: a transposed one computes its data gradient.
std::optional<Convolution> ConvolutionOf(const ScratchQuery& query, const Tensor* result) {
  const Tensor* input = query.Argument("input");
  const Tensor* weight = query.Argument("weight");
  if (input == nullptr || weight == nullptr || result == nullptr) return std::nullopt;
  const std::size_t rank = input->shape.size();
  if (rank < 3 || rank > 5 || weight->shape.size() != rank || result->shape.size() != rank) return std::nullopt;
  const std::optional<ConvolutionType> type = ConvolutionTypeOf(input->dtype);
  if (!type) return std::nullopt;
  const bool* transposed = ArgumentAs<bool>(query.op, "transposed");
  const bool is_transposed = transposed != nullptr && *transposed;
  const Tensor& from = is_transposed ? *result : *input;
  const Tensor& to = is_transposed ? *input : *result;
  const std::int64_t* groups = ArgumentAs<std::int64_t>(query.op, "groups");
  ConvolutionProblem problem;
  problem.type = *type;
  problem.is_channels_last = IsChannelsLast(*input);
  problem.batch = input->shape[0];
  problem.in_channels = from.shape[1];
  problem.out_channels = to.shape[1];
  problem.groups = groups ? *groups : 1;
  problem.input = SpatialOf(from.shape);
  problem.output = SpatialOf(to.shape);
  problem.filter = SpatialOf(weight->shape);
  problem.stride = PerAxis(query.op, "stride", rank - 2);
  problem.dilation = PerAxis(query.op, "dilation", rank - 2);
  problem.pass = is_transposed ? ConvolutionPass::kDataGradient : ConvolutionPass::kForward;
  if (!is_transposed && IsNativeDepthwise(problem)) return std::nullopt;
  return Convolution{problem, *input, *weight};
}

// What a copy takes where the tensor does not lie as asked for.
Bytes CopyOf(const Tensor& tensor, bool channels_last) {
  bool lies_so = channels_last ? IsChannelsLast(tensor) : IsRowMajor(tensor);
  // With one channel, or one pixel, both orders are one.
  if (channels_last && !lies_so && IsRowMajor(tensor)) {
    std::int64_t pixels = 1;
    for (std::size_t i = 2; i < tensor.shape.size(); ++i) pixels *= tensor.shape[i];
    lies_so = tensor.shape[1] == 1 || pixels == 1;
  }
  return lies_so ? 0 : SizeOf(tensor);
}

Dims AllButChannels(std::size_t rank) {
  Dims axes{0};
  for (std::size_t i = 2; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  return axes;
}

LibraryConvolution Tried(const ConvolutionProblem& problem, std::size_t after_results, const DeviceProfile& gpu) {
  LibraryConvolution out;
  out.after_results = after_results;
  out.problem =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(problem.pass), static_cast<int>(problem.type),
                  problem.is_channels_last, problem.batch, problem.in_channels, problem.out_channels, problem.groups,
                  problem.input, problem.filter, problem.output, problem.stride, problem.dilation);
  for (const ConvolutionEngine& engine : ConvolutionEngines(problem, gpu)) {
    out.most_workspace = std::max(out.most_workspace, engine.workspace);
  }
  return out;
}

const Tensor* OutputGradient(const ScratchQuery& query) {
  const Tensor* grad = query.Argument("grad_output");
  return grad == nullptr ? query.Argument("grad") : grad;
}

// What the pass that makes the input's gradient is to cuDNN.
ConvolutionPass DataPass(const ConvolutionProblem& problem) {
  return problem.pass == ConvolutionPass::kDataGradient ? ConvolutionPass::kForward : ConvolutionPass::kDataGradient;
}

}  // namespace

std::vector<LibraryConvolution> LibraryConvolutionsOf(const TrainingGraph& graph, const Op& op,
                                                      const DeviceProfile& gpu) {
  const ScratchQuery query{graph, op, gpu};
  std::vector<LibraryConvolution> out;
  if (op.kind == "convolution" && !op.outputs.empty()) {
    const auto convolution = ConvolutionOf(query, &graph.tensor(op.outputs.front()));
    if (convolution) out.push_back(Tried(convolution->problem, 1, gpu));
  }
  if (op.kind != "convolution_backward") return out;
  const auto convolution = ConvolutionOf(query, OutputGradient(query));
  if (!convolution) return out;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const Dims& made = graph.tensor(op.outputs[i]).shape;
    ConvolutionProblem problem = convolution->problem;
    if (made == convolution->input.shape && i == 0) {
      problem.pass = DataPass(problem);
    } else if (made == convolution->weight.shape) {
      problem.pass = ConvolutionPass::kFilterGradient;
    } else {
      continue;  // the bias's, a plain sum
    }
    out.push_back(Tried(problem, i + 1, gpu));
  }
  return out;
}

std::optional<ConvolutionProblem> ForwardConvolutionOf(const TrainingGraph& graph, const Op& op,
                                                       const DeviceProfile& gpu) {
  if (op.kind != "convolution" || op.outputs.empty()) return std::nullopt;
  const auto convolution = ConvolutionOf({graph, op, gpu}, &graph.tensor(op.outputs.front()));
  if (!convolution) return std::nullopt;
  return convolution->problem;
}

void ConvolutionScratch(const ScratchQuery& query, ScratchList& scratch) {
  const auto convolution = ConvolutionOf(query, &query.graph.tensor(query.op.outputs.front()));
  if (!convolution) return;
  const bool channels_last = convolution->problem.is_channels_last;
  scratch.Take(0, CopyOf(convolution->input, channels_last));
  scratch.Take(1, CopyOf(convolution->weight, channels_last));
  scratch.Take(1, ConvolutionWorkspace(convolution->problem, query.gpu));
}

// The gradient of the input, if it is wanted, then that of the filter, then the bias's, a plain sum over the original.
void ConvolutionBackwardScratch(const ScratchQuery& query, ScratchList& scratch) {
  const Tensor* grad = OutputGradient(query);
  const Tensor* input = query.Argument("input");
  const Tensor* weight = query.Argument("weight");
  if (grad == nullptr || input == nullptr || weight == nullptr || grad->shape.size() < 2) return;
  const auto convolution = ConvolutionOf(query, grad);
  const bool channels_last = convolution && convolution->problem.is_channels_last;
  const ScratchList::Place grad_copy = scratch.Take(0, convolution ? CopyOf(*grad, channels_last) : 0);
  const auto pass = [&](ConvolutionPass direction, std::size_t results) {
    ConvolutionProblem problem = convolution->problem;
    problem.pass = direction;
    scratch.TakeAndRelease(results, ConvolutionWorkspace(problem, query.gpu));
  };
  std::size_t results = 0;
  for (const TensorId output : query.op.outputs) {
    const Tensor& made = query.graph.tensor(output);
    ++results;
    if (made.shape == input->shape && results == 1) {
      if (!convolution) continue;
      const ScratchList::Place copy = scratch.Take(results, CopyOf(*weight, channels_last));
      pass(DataPass(convolution->problem), results);
      scratch.Release(copy, results);
    } else if (made.shape == weight->shape) {
      if (convolution) pass(ConvolutionPass::kFilterGradient, results);
      scratch.Release(grad_copy, results);
    } else {
      scratch.Release(grad_copy, results - 1);
      AddReduction(*grad, AllButChannels(grad->shape.size()), query.gpu, results, scratch);
    }
  }
}

}  // namespace ebbtide::estimate
