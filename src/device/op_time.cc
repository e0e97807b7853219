// The roofline of one op: its arithmetic by tiles that fill the GPU in rounds, its traffic by the bytes it touches.
#include "device/op_time.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>

#include "device/collectives.h"
#include "graph/arguments.h"
#include "graph/collective.h"
#include "graph/shape.h"

namespace ebbtide {
namespace {

// A matrix product as kernels cut it up: tiles of the result, each computed by one multiprocessor.
constexpr double kTileRows = 128;
constexpr double kWidestTile = 128;
constexpr double kNarrowestTile = 32;

// Winograd's algorithm, F(2x2, 3x3): 16 multiplications in place of 36. In one kernel, with the shares it reaches.
constexpr double kFusedSaving = 36.0 / 16;
constexpr double kFusedForward = 0.44;
constexpr double kFusedBackward = 0.33;
// F(4x4, 3x3): 36 in place of 144. Separate kernels write the transformed tiles, 36 values for every 16, and read them.
constexpr double kTiledSaving = 144.0 / 36;
constexpr double kTiledSide = 4;
constexpr double kTiledTraffic = 1 + 2 * 36.0 / 16;
constexpr std::int64_t kFewestWinogradChannels = 16;

// Depthwise convolutions are no matrix products: a multiprocessor's plain arithmetic, with poor reuse of what it loads.
constexpr double kDepthwiseCompute = 0.15;
constexpr double kDepthwiseMemory = 0.50;

// Elements that one thread of a pointwise or reducing kernel takes on: one load of 16 bytes of float32.
constexpr double kElementsPerThread = 4;

// What is only written, though it is among the inputs.
bool OverwritesUnread(std::string_view kind) {
  constexpr std::string_view kKinds[] = {"fill_",    "zero_",   "copy_",         "bernoulli_",
                                         "uniform_", "normal_", "_foreach_zero_"};
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

double TensorBytes(const TrainingGraph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  const auto elements = static_cast<double>(ElementCount(tensor.shape).value_or(0));
  // An expanded tensor has more elements than there are bytes behind it.
  return std::min(elements * static_cast<double>(ItemSize(tensor.dtype)),
                  static_cast<double>(graph.storage(tensor.storage).bytes));
}

bool Contains(const std::vector<TensorId>& ids, TensorId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

class Roofline {
 public:
  Roofline(const TrainingGraph& graph, const Op& op, const DeviceProfile& profile, const OpTimeOptions& options)
      : graph_(graph),
        op_(op),
        profile_(profile),
        options_(options),
        family_(FamilyOf(op.kind)),
        efficiency_(EfficiencyOf(family_)) {}

  // In seconds, without the launch.
  double Seconds() const {
    const double memory = Traffic(efficiency_.input_passes) / (profile_.memory_bandwidth * efficiency_.memory);
    switch (family_) {
      case OpFamily::kNothing: return 0;
      case OpFamily::kConvolution:
      case OpFamily::kConvolutionBackward: return std::max(memory, ConvolutionSeconds());
      case OpFamily::kMatrixProduct: return std::max(memory, ProductSeconds());
      default: return std::max(memory, Flops() / PeakFlops(false, efficiency_));
    }
  }

  // Of the GPU's multiprocessors (for products: tiles, the mean over the rounds) or of the threads it holds (for all
  // else) that are busy while the op's kernels run.
  double Share() const {
    double share = 1;
    switch (family_) {
      case OpFamily::kNothing: return 0;
      case OpFamily::kConvolution:
      case OpFamily::kConvolutionBackward: share = ConvolutionUtilisation(); break;
      case OpFamily::kMatrixProduct: share = ProductUtilisation(); break;
      default: {
        const auto held = static_cast<double>(profile_.multiprocessors * profile_.threads_per_multiprocessor);
        if (held > 0) share = Elements() / kElementsPerThread / held;
      }
    }
    return std::clamp(share, 0.0, 1.0);
  }

  // Kernels that the op consists of, roughly: one for each of the gradients of a convolution.
  double Launches() const {
    if (family_ == OpFamily::kNothing) return 0;
    return family_ == OpFamily::kConvolutionBackward ? static_cast<double>(std::max<std::size_t>(1, op_.outputs.size()))
                                                     : 1;
  }

 private:
  double Flops() const { return static_cast<double>(op_.flops); }

  double Traffic(double input_passes) const {
    const double written = Written();
    const bool unread = OverwritesUnread(op_.kind);
    double read = 0;
    for (const TensorId id : op_.inputs) {
      if (unread && Contains(op_.mutated, id)) continue;
      const double bytes = TensorBytes(graph_, id);
      read += family_ == OpFamily::kLookup ? std::min(bytes, written) : bytes;
    }
    return input_passes * read + written;
  }

  // New storages, and what is changed in place.
  double Written() const {
    double bytes = 0;
    for (const TensorId id : op_.mutated) bytes += TensorBytes(graph_, id);
    for (const TensorId id : op_.outputs) {
      if (!IsGiven(graph_.tensor(id).storage)) bytes += TensorBytes(graph_, id);
    }
    return bytes;
  }

  bool IsGiven(StorageId storage) const {
    return std::any_of(op_.inputs.begin(), op_.inputs.end(),
                       [&](TensorId id) { return graph_.tensor(id).storage == storage; });
  }

  // The type that the arithmetic is done in: that of the first floating input.
  DType ArithmeticType() const {
    for (const TensorId id : op_.inputs) {
      if (IsFloating(graph_.tensor(id).dtype)) return graph_.tensor(id).dtype;
    }
    return DType::kFloat32;
  }

  // PyTorch lets cuDNN round float32 to TF32 unless told otherwise, and cuBLAS only when told so.
  bool UsesTf32(bool convolution) const {
    return convolution && ArithmeticType() == DType::kFloat32 && profile_.tf32_flops > 0;
  }

  double PeakFlops(bool convolution, const FamilyEfficiency& efficiency) const {
    const double plain = profile_.float32_flops * efficiency.compute;
    switch (ArithmeticType()) {
      case DType::kFloat16:
        return profile_.float16_flops > 0 ? profile_.float16_flops * efficiency.tensor_compute : plain;
      case DType::kBFloat16:
        return profile_.bfloat16_flops > 0 ? profile_.bfloat16_flops * efficiency.tensor_compute : plain;
      case DType::kFloat64:
      case DType::kComplex128: return profile_.float64_flops > 0 ? profile_.float64_flops * efficiency.compute : plain;
      default: return UsesTf32(convolution) ? profile_.tf32_flops * efficiency.tensor_compute : plain;
    }
  }

  // Share of the GPU that works while a result of rows x columns is computed, `batch` times: the last round of tiles
  // leaves multiprocessors idle. A sum longer than both sides is itself divided among them.
  double Utilisation(double batch, double rows, double columns, double sum) const {
    if (profile_.multiprocessors <= 0 || (sum > rows && sum > columns)) return 1;
    const double width =
        std::clamp(std::exp2(std::ceil(std::log2(std::max(columns, 1.0)))), kNarrowestTile, kWidestTile);
    const double tiles = std::max(1.0, batch * std::ceil(rows / kTileRows) * std::ceil(columns / width));
    const auto processors = static_cast<double>(profile_.multiprocessors);
    return tiles / (std::ceil(tiles / processors) * processors);
  }

  double ProductUtilisation() const {
    if (op_.outputs.empty()) return 1;
    const Dims& shape = graph_.tensor(op_.outputs[0]).shape;
    if (shape.size() < 2) return 1;
    const auto columns = static_cast<double>(shape[shape.size() - 1]);
    const auto rows = static_cast<double>(shape[shape.size() - 2]);
    double batch = 1;
    for (std::size_t i = 0; i + 2 < shape.size(); ++i) batch *= static_cast<double>(shape[i]);
    const double sum = Flops() / std::max(1.0, 2 * batch * rows * columns);
    return Utilisation(batch, rows, columns, sum);
  }

  double ProductSeconds() const {
    if (op_.outputs.empty()) return 0;
    return Flops() / (PeakFlops(false, efficiency_) * ProductUtilisation());
  }

  // Of the largest of its tensors; of a multi-tensor op, of all it changes.
  double Elements() const {
    double most = 0, changed = 0;
    const auto count = [&](TensorId id) {
      return std::min(static_cast<double>(ElementCount(graph_.tensor(id).shape).value_or(0)), 1e18);
    };
    for (const TensorId id : op_.inputs) most = std::max(most, count(id));
    for (const TensorId id : op_.outputs) most = std::max(most, count(id));
    for (const TensorId id : op_.mutated) changed += count(id);
    return std::max(most, changed);
  }

  struct Convolution {
    const Dims* weight = nullptr;
    double images = 0;
    double in_positions = 0, out_positions = 0;  // of one image
    double groups = 1;
    bool plain = true;  // stride and dilation of 1, not transposed
    std::int64_t out_side = 0;
    double bytes = 0;  // of input and output
  };

  std::optional<Convolution> DescribeConvolution() const {
    const TensorId input = TensorArgument(op_, "input"), weight = TensorArgument(op_, "weight");
    TensorId output = TensorArgument(op_, "grad_output");
    if (!output.valid()) output = TensorArgument(op_, "grad");
    if (family_ == OpFamily::kConvolution && !op_.outputs.empty()) output = op_.outputs[0];
    if (!input.valid() || !weight.valid() || !output.valid()) return std::nullopt;
    const Dims& in = graph_.tensor(input).shape;
    const Dims& out = graph_.tensor(output).shape;
    Convolution convolution{.weight = &graph_.tensor(weight).shape};
    if (in.size() < 3 || out.size() != in.size() || convolution.weight->size() != in.size()) return std::nullopt;
    convolution.images = static_cast<double>(in[0]);
    convolution.in_positions = convolution.out_positions = 1;
    for (std::size_t i = 2; i < in.size(); ++i) {
      convolution.in_positions *= static_cast<double>(in[i]);
      convolution.out_positions *= static_cast<double>(out[i]);
    }
    convolution.out_side = out.back();
    convolution.bytes = TensorBytes(graph_, input) + TensorBytes(graph_, output);
    if (const auto* groups = ArgumentAs<std::int64_t>(op_, "groups")) convolution.groups = static_cast<double>(*groups);
    for (const char* name : {"stride", "dilation"}) {
      const Dims* steps = ArgumentAs<Dims>(op_, name);
      if (steps && std::any_of(steps->begin(), steps->end(), [](std::int64_t step) { return step != 1; })) {
        convolution.plain = false;
      }
    }
    if (const bool* transposed = ArgumentAs<bool>(op_, "transposed"); transposed && *transposed) {
      convolution.plain = false;
    }
    return convolution;
  }

  // Backward is one product per gradient; that of the weight is a long sum, which fills the GPU.
  double ConvolutionUtilisation(const Convolution& convolution) const {
    const Dims& weight = *convolution.weight;
    const bool backward = family_ == OpFamily::kConvolutionBackward;
    const double rows = convolution.images * (backward ? convolution.in_positions : convolution.out_positions);
    const auto columns = static_cast<double>(backward ? weight[1] : weight[0]) / (backward ? 1 : convolution.groups);
    return Utilisation(convolution.groups, rows, columns, 0);
  }
  double ConvolutionUtilisation() const {
    const auto convolution = DescribeConvolution();
    return convolution ? ConvolutionUtilisation(*convolution) : 1;
  }

  double ConvolutionSeconds() const {
    const double peak = PeakFlops(true, efficiency_);
    const auto convolution = DescribeConvolution();
    if (!convolution) return Flops() / peak;
    const Dims& weight = *convolution->weight;
    const bool backward = family_ == OpFamily::kConvolutionBackward;
    if (convolution->groups > 1 && weight[1] == 1) {
      return std::max(Flops() / (profile_.float32_flops * kDepthwiseCompute),
                      Traffic(1) / (profile_.memory_bandwidth * kDepthwiseMemory));
    }
    const double utilisation = ConvolutionUtilisation(*convolution);
    const double direct = Flops() / (peak * utilisation);
    const bool winograd = options_.winograd && ArithmeticType() == DType::kFloat32 && !UsesTf32(true) &&
                          convolution->plain && convolution->groups == 1 && weight.size() == 4 && weight[2] == 3 &&
                          weight[3] == 3 && std::min(weight[0], weight[1]) >= kFewestWinogradChannels;
    return winograd ? std::min(direct, WinogradSeconds(*convolution, backward, utilisation)) : direct;
  }

  // The better of the two forms.
  double WinogradSeconds(const Convolution& convolution, bool backward, double utilisation) const {
    const double fused =
        Flops() / kFusedSaving / (profile_.float32_flops * (backward ? kFusedBackward : kFusedForward) * utilisation);
    const auto side = static_cast<double>(convolution.out_side);
    const double covered = std::ceil(side / kTiledSide) * kTiledSide / std::max(1.0, side);
    const double once = 2 * convolution.images * convolution.out_positions *
                        static_cast<double>(ElementCount(*convolution.weight).value_or(0));
    const double products = once > 0 ? Flops() / once : 1;
    const double tiled =
        Flops() / kTiledSaving / (profile_.float32_flops * EfficiencyOf(OpFamily::kMatrixProduct).compute) +
        products * kTiledTraffic * convolution.bytes / (profile_.memory_bandwidth * efficiency_.memory);
    return std::min(fused, tiled * covered * covered);
  }

  const TrainingGraph& graph_;
  const Op& op_;
  const DeviceProfile& profile_;
  const OpTimeOptions& options_;
  const OpFamily family_;
  const FamilyEfficiency& efficiency_;
};

}  // namespace

bool IsView(const TrainingGraph& graph, const Op& op) {
  if (op.outputs.empty() || !op.mutated.empty()) return false;
  return std::all_of(op.outputs.begin(), op.outputs.end(), [&](TensorId output) {
    return std::any_of(op.inputs.begin(), op.inputs.end(),
                       [&](TensorId input) { return graph.tensor(input).storage == graph.tensor(output).storage; });
  });
}

Nanos ModelledTime(const TrainingGraph& graph, const Op& op, const DeviceProfile& profile,
                   const OpTimeOptions& options) {
  if (IsCollective(op)) return CollectiveTime(profile, op);
  if (IsView(graph, op)) return 0;
  const Roofline roofline(graph, op, profile, options);
  const double nanos = roofline.Seconds() * 1e9 + roofline.Launches() * static_cast<double>(profile.launch_latency);
  // Sums of times over a graph stay within 64 bits.
  constexpr double kLongest = 1e15;
  return std::isfinite(nanos) ? std::llround(std::min(nanos, kLongest)) : static_cast<Nanos>(kLongest);
}

GpuUse UseOf(const TrainingGraph& graph, const Op& op, const DeviceProfile& profile) {
  if (IsView(graph, op)) return {};
  const OpTimeOptions options;
  const Roofline roofline(graph, op, profile, options);
  return {.share = roofline.Share(),
          .launch = std::llround(roofline.Launches() * static_cast<double>(profile.launch_latency))};
}

std::vector<Nanos> OpTimes(const TrainingGraph& graph, const DeviceProfile& profile, const OpTimeOptions& options) {
  const bool timed = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.time > 0; });
  std::vector<Nanos> times;
  times.reserve(graph.ops.size());
  for (const Op& op : graph.ops) times.push_back(timed ? op.time : ModelledTime(graph, op, profile, options));
  return times;
}

}  // namespace ebbtide
