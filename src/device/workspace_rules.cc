// Evaluates the trees of workspace_trees.h for convolutions, and the closed formulas for all else.
#include "device/workspace_rules.h"

#include <algorithm>
#include <span>

#include "device/workspace_trees.h"

namespace ebbtide {

namespace {

constexpr Bytes kAlignment = 16;
constexpr Bytes kOffsetBytes = 6, kOffsetAlignment = 128;

}  // namespace

std::optional<ConvolutionType> ConvolutionTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return ConvolutionType::kFloat16;
    case DType::kBFloat16: return ConvolutionType::kBFloat16;
    case DType::kFloat32: return ConvolutionType::kFloat32;
    case DType::kFloat64: return ConvolutionType::kFloat64;
    default: return std::nullopt;
  }
}

Bytes ItemSize(ConvolutionType type) {
  switch (type) {
    case ConvolutionType::kFloat64: return 8;
    case ConvolutionType::kFloat32: return 4;
    case ConvolutionType::kInt8: return 1;
    default: return 2;
  }
}

namespace {

std::int64_t Product(const std::vector<std::int64_t>& sizes) {
  std::int64_t product = 1;
  for (std::int64_t size : sizes) product = SaturatingMul(product, size);
  return product;
}

bool IsHalf(ConvolutionType type) { return type == ConvolutionType::kFloat16 || type == ConvolutionType::kBFloat16; }

// Float32 as tf32 since Ampere, half precision since Volta, bfloat16 since Ampere.
bool HasTensorCores(ConvolutionType type, const DeviceProfile& profile) {
  return profile.compute_major >= (type == ConvolutionType::kFloat16 ? 7 : 8);
}

std::span<const ChoiceNode> TreeOf(const ConvolutionProblem& problem) {
  static constexpr std::span<const ChoiceNode> kTrees[2][2][3] = {
      {{kFloat32PlanarForward, kFloat32PlanarDataGradient, kFloat32PlanarFilterGradient},
       {kFloat32ChannelsLastForward, kFloat32ChannelsLastDataGradient, kFloat32ChannelsLastFilterGradient}},
      {{kFloat16PlanarForward, kFloat16PlanarDataGradient, kFloat16PlanarFilterGradient},
       {kFloat16ChannelsLastForward, kFloat16ChannelsLastDataGradient, kFloat16ChannelsLastFilterGradient}}};
  return kTrees[IsHalf(problem.type)][problem.is_channels_last][static_cast<std::size_t>(problem.pass)];
}

Copies ChosenCopies(const ConvolutionProblem& problem, const DeviceProfile& profile) {
  std::int64_t in = problem.in_channels / problem.groups, out = problem.out_channels / problem.groups;
  std::int64_t area = Product(problem.filter);
  auto feature = [&](ChoiceFeature which) -> std::int64_t {
    switch (which) {
      case kRows: return SaturatingMul(problem.batch, Product(problem.output));
      case kColumns:
      case kOutChannels: return out;
      case kDepth: return SaturatingMul(in, area);
      case kInChannels: return in;
      case kFilterArea: return area;
      case kStride: return problem.stride.front();
      case kGroups: return problem.groups;
      case kPixels: return Product(problem.input);
      case kBatch: return problem.batch;
      case kCapability: return profile.compute_major * 10 + profile.compute_minor;
      case kLeaf: break;
    }
    return 0;
  };
  std::span<const ChoiceNode> tree = TreeOf(problem);
  std::size_t row = 0;
  while (tree[row].feature != kLeaf)
    row += feature(tree[row].feature) <= tree[row].limit ? 1 : 1 + static_cast<std::size_t>(tree[row].skip);
  return tree[row].copies;
}

// Channels are padded to 16 bytes, as tensor cores read them; those of groups are not.
Bytes CopiedBytes(const ConvolutionProblem& problem, const Copies& copies) {
  Bytes item = ItemSize(problem.type);
  std::int64_t in = problem.in_channels, out = problem.out_channels;
  std::int64_t padded_in = problem.groups == 1 ? RoundUp(in, 16 / item) : in;
  std::int64_t padded_out = problem.groups == 1 ? RoundUp(out, 16 / item) : out;
  auto bytes = [&](std::int64_t count, std::int64_t channels, std::int64_t others, std::int64_t area) {
    return SaturatingMul(count * item, SaturatingMul(SaturatingMul(channels, others), area));
  };
  Bytes sum = bytes(copies.input, padded_in, problem.batch, Product(problem.input)) +
              bytes(copies.output, padded_out, problem.batch, Product(problem.output)) +
              bytes(copies.filter, padded_in / problem.groups, out, Product(problem.filter));
  return sum > 0 ? sum + kAlignment : 0;
}

}  // namespace

std::vector<ConvolutionEngine> ConvolutionEngines(const ConvolutionProblem& problem, const DeviceProfile& profile) {
  std::vector<ConvolutionEngine> engines;
  bool is_deterministic = problem.pass == ConvolutionPass::kForward;
  if (problem.type == ConvolutionType::kFloat32 || IsHalf(problem.type)) {
    bool uses_tensor_cores = HasTensorCores(problem.type, profile);
    Bytes workspace = CopiedBytes(problem, ChosenCopies(problem, profile));
    if (workspace > 0 || (uses_tensor_cores && IsHalf(problem.type)))
      engines.push_back(
          {.name = "implicit_gemm_tensor_cores", .workspace = workspace, .uses_tensor_cores = uses_tensor_cores});
    else
      engines.push_back({.name = "implicit_gemm_atomics", .is_deterministic = is_deterministic});
  }
  // Where each output pixel's inputs lie.
  Bytes offsets = RoundUp(SaturatingMul(kOffsetBytes, Product(problem.output)), kOffsetAlignment);
  if (problem.pass == ConvolutionPass::kForward && problem.groups == 1)
    engines.push_back({.name = "implicit_precomputed_gemm", .workspace = offsets});
  engines.push_back({.name = "implicit_gemm"});
  return engines;
}

std::vector<Bytes> SearchedWorkspaces(const ConvolutionProblem& problem, const DeviceProfile& profile) {
  std::vector<Bytes> workspaces;
  const auto add = [&](Bytes bytes) {
    if (bytes > 0) workspaces.push_back(bytes);
  };
  for (const ConvolutionEngine& engine : ConvolutionEngines(problem, profile)) add(engine.workspace);
  const bool rounds = IsHalf(problem.type) || (problem.type == ConvolutionType::kFloat32 && problem.allows_tf32);
  const bool is_plain = problem.groups == 1 && !problem.is_channels_last;
  if (is_plain && rounds && HasTensorCores(problem.type, profile)) add(CopiedBytes(problem, {1, 1, 1}));
  if (is_plain && problem.pass == ConvolutionPass::kForward) {
    const Bytes patch = SaturatingMul(problem.in_channels * ItemSize(problem.type), Product(problem.filter));
    add(SaturatingMul(patch, SaturatingMul(problem.batch, Product(problem.output))));
  }
  std::ranges::sort(workspaces);
  return workspaces;
}

Bytes ConvolutionWorkspace(const ConvolutionProblem& problem, const DeviceProfile& profile) {
  for (const ConvolutionEngine& engine : ConvolutionEngines(problem, profile)) {
    bool is_allowed = problem.allows_tf32 || problem.type != ConvolutionType::kFloat32 || !engine.uses_tensor_cores;
    if (is_allowed) return engine.workspace;
  }
  return 0;
}

// Planar tensors are summed by one block for each channel; with channels last each block sums a part of all channels.
Bytes BatchNormForwardWorkspace(const BatchNormProblem& problem, const DeviceProfile& profile) {
  if (!problem.is_channels_last) return 0;
  return SaturatingMul(2 * sizeof(float), SaturatingMul(problem.channels, profile.multiprocessors));
}

Bytes BatchNormBackwardWorkspace(const BatchNormProblem& problem, const DeviceProfile& profile) {
  return BatchNormForwardWorkspace(problem, profile);
}

Bytes BatchNormReserve(const BatchNormProblem& problem) {
  return problem.has_activation ? RoundUp(problem.elements, 8) / 8 : 0;
}

namespace {

// Elements of one layer's output at all steps.
std::int64_t StepsOfLayer(const RecurrentProblem& problem) {
  return problem.length * problem.batch * problem.hidden_size * problem.directions;
}

}  // namespace

Bytes RecurrentWorkspace(const RecurrentProblem& problem) {
  return problem.item_size * (problem.gates + 1) * StepsOfLayer(problem);
}

Bytes RecurrentReserve(const RecurrentProblem& problem) {
  if (!problem.is_training) return 0;
  std::int64_t kept = problem.gates + (problem.has_cell_state ? 2 : 1);
  std::int64_t elements = problem.layers * kept * StepsOfLayer(problem);
  if (problem.has_dropout) elements += (problem.layers - 1) * StepsOfLayer(problem);
  return problem.item_size * elements;
}

Bytes DropoutStates(const DeviceProfile& profile) {
  return profile.multiprocessors * profile.threads_per_multiprocessor * 48;
}

Bytes CtcWorkspace(Bytes item_size, std::int64_t length, std::int64_t batch, std::int64_t classes,
                   std::int64_t longest_label) {
  return item_size * batch * (length * classes + length * (2 * longest_label + 1) + 2 * (2 * longest_label + 1));
}

Bytes BlasWorkspace(const DeviceProfile& profile) {
  if (profile.compute_major >= 9) return 32 * kMiB;
  return 4096 * kKiB * 2 + 16 * kKiB * 8;
}

}  // namespace ebbtide
