// Times of single operations: a graph of one op for each, given to src/device.
#include "phantom/core/op_clock.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <vector>

#include "device/op_time.h"
#include "graph/shape.h"
#include "phantom/core/declare.h"
#include "phantom/core/device.h"
#include "phantom/core/kernels.h"

namespace ebbtide::phantom {
namespace {

std::atomic<std::int64_t> guessed{0};

// An operator of the framework that is being run by this thread.
struct OpenOperator {
  std::shared_ptr<Stream> stream;  // of the last kernel that it started by itself; null: none yet
};
thread_local std::vector<OpenOperator> open_operators;

bool Modelled() { return TheDevice().config.model_times; }

// A graph of one op that is filled piece by piece.
struct OneOp {
  TrainingGraph graph;
  Op op;

  TensorId Add(const void* storage, Bytes bytes, DType dtype, Dims shape) {
    std::size_t at = 0;
    while (at < addresses.size() && (storage == nullptr || addresses[at] != storage)) ++at;
    if (at == addresses.size()) {
      addresses.push_back(storage);
      graph.storages.emplace_back().bytes = bytes;
    }
    Tensor& tensor = graph.tensors.emplace_back();
    tensor.storage = StorageId(static_cast<int>(at));
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    return TensorId(static_cast<int>(graph.tensors.size()) - 1);
  }
  TensorId AddNew(DType dtype, Dims shape) {
    const Bytes bytes = ElementCount(shape).value_or(0) * ItemSize(dtype);
    return Add(nullptr, bytes, dtype, std::move(shape));
  }
  Nanos Time() const { return ModelledTime(graph, op, TheDevice().profile); }

 private:
  std::vector<const void*> addresses;
};

// By c10::ScalarType.
DType FromTorch(int type, std::size_t item_size) {
  constexpr DType kTypes[] = {DType::kUInt8,   DType::kInt8,      DType::kInt16,      DType::kInt32,
                              DType::kInt64,   DType::kFloat16,   DType::kFloat32,    DType::kFloat64,
                              DType::kFloat32, DType::kComplex64, DType::kComplex128, DType::kBool};
  constexpr int kBFloat16 = 15;
  if (type >= 0 && type < static_cast<int>(std::size(kTypes))) return kTypes[type];
  if (type == kBFloat16) return DType::kBFloat16;
  return item_size == 1 ? DType::kInt8 : item_size == 2 ? DType::kInt16 : DType::kInt32;
}

DType StorageType(ProductType type) {
  switch (type) {
    case ProductType::kFloat16: return DType::kFloat16;
    case ProductType::kBFloat16: return DType::kBFloat16;
    case ProductType::kFloat64: return DType::kFloat64;
    case ProductType::kInt8: return DType::kInt8;
    default: return DType::kFloat32;
  }
}

double Elements(const OneOp& one, TensorId id) {
  return static_cast<double>(ElementCount(one.graph.tensor(id).shape).value_or(0));
}

// Matrix work that frameworks do in kernels of their own. Libraries are timed where they are called.
std::int64_t Flops(const OneOp& one) {
  const std::string_view kind = one.op.kind;
  const bool backward = kind.ends_with("_backward");
  double flops = 0;
  if (FamilyOf(kind) == OpFamily::kAttention) {
    // Query, key and value are the last three with four sizes each before the statistics: (batch, heads, length, size).
    std::vector<TensorId> fours;
    for (const TensorId id : one.op.inputs)
      if (one.graph.tensor(id).shape.size() == 4) fours.push_back(id);
    const std::size_t first = backward ? 1 : 0;  // behind the gradient
    if (fours.size() < first + 3) return 0;
    const auto length = static_cast<double>(one.graph.tensor(fours[first + 1]).shape[2]);
    flops = (backward ? 10 : 4) * Elements(one, fours[first]) * length;
  } else if (FamilyOf(kind) == OpFamily::kRecurrent && !one.op.inputs.empty()) {
    const Dims& input = one.graph.tensor(one.op.inputs[0]).shape;
    double weights = 0;
    for (const TensorId id : one.op.inputs)
      if (one.graph.tensor(id).shape.size() == 2) weights += Elements(one, id);
    const double width = input.empty() ? 1 : static_cast<double>(std::max<std::int64_t>(1, input.back()));
    flops = (backward ? 4 : 2) * weights * Elements(one, one.op.inputs[0]) / width;
  }
  return static_cast<std::int64_t>(std::min(flops, 9e18));
}

}  // namespace

Nanos TimeOfProduct(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, ProductType type) {
  if (!Modelled()) return -1;
  OneOp one;
  one.op.kind = "bmm";
  const DType dtype = StorageType(type);
  // Columns first, as BLAS has them: the transposed product of row-major matrices.
  one.op.inputs = {one.AddNew(dtype, {batch, n, k}), one.AddNew(dtype, {batch, k, m})};
  one.op.outputs = {one.AddNew(dtype, {batch, n, m})};
  const double flops =
      2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  one.op.flops = static_cast<std::int64_t>(std::min(flops, 9e18));
  const Nanos time = one.Time();
  const DeviceProfile& profile = TheDevice().profile;
  if (type != ProductType::kTf32 || !(profile.tf32_flops > 0)) return time;
  // Tensor cores on float32, as the program allowed.
  const double faster = profile.tf32_flops * EfficiencyOf(OpFamily::kMatrixProduct).tensor_compute /
                        (profile.float32_flops * EfficiencyOf(OpFamily::kMatrixProduct).compute);
  one.op.flops = static_cast<std::int64_t>(static_cast<double>(one.op.flops) / std::max(1.0, faster));
  return one.Time();
}

Nanos TimeOfConvolution(const ConvolutionProblem& problem) {
  if (!Modelled()) return -1;
  const DType dtype = problem.type == ConvolutionType::kFloat64    ? DType::kFloat64
                      : problem.type == ConvolutionType::kFloat16  ? DType::kFloat16
                      : problem.type == ConvolutionType::kBFloat16 ? DType::kBFloat16
                                                                   : DType::kFloat32;
  OneOp one;
  const auto shape = [](std::int64_t images, std::int64_t channels, const auto& sides) {
    Dims dims = {images, channels};
    dims.insert(dims.end(), sides.begin(), sides.end());
    return dims;
  };
  const std::int64_t groups = std::max<std::int64_t>(1, problem.groups);
  const TensorId input = one.AddNew(dtype, shape(problem.batch, problem.in_channels, problem.input));
  const TensorId weight = one.AddNew(dtype, shape(problem.out_channels, problem.in_channels / groups, problem.filter));
  const TensorId output = one.AddNew(dtype, shape(problem.batch, problem.out_channels, problem.output));
  double flops = 2 * static_cast<double>(problem.batch) * Elements(one, weight);
  for (const auto side : problem.output) flops *= static_cast<double>(side);
  one.op.flops = static_cast<std::int64_t>(std::min(flops, 9e18));
  one.op.arguments = {{"input", input},
                      {"weight", weight},
                      {"groups", groups},
                      {"stride", Dims(problem.stride.begin(), problem.stride.end())},
                      {"dilation", Dims(problem.dilation.begin(), problem.dilation.end())}};
  if (problem.pass == ConvolutionPass::kForward) {
    one.op.kind = "convolution";
    one.op.inputs = {input, weight};
    one.op.outputs = {output};
  } else {
    const bool data = problem.pass == ConvolutionPass::kDataGradient;
    one.op.kind = "convolution_backward";
    one.op.arguments.push_back({"grad_output", output});
    one.op.inputs = {output, data ? weight : input};
    one.op.outputs = {data ? input : weight};
  }
  return one.Time();
}

Nanos TimeOfLaunch(Stream& stream, const LaunchShape* shape) {
  Device& device = TheDevice();
  if (!device.config.model_times) return device.config.kernel_time;
  if (!open_operators.empty()) {
    open_operators.back().stream = stream.shared_from_this();
    return 0;
  }
  guessed.fetch_add(1, std::memory_order_relaxed);
  if (shape == nullptr) return device.profile.launch_latency;
  // One load and one store of 16 bytes for each thread.
  constexpr double kBytesPerThread = 32;
  double threads = 1;
  for (int i = 0; i < 3; ++i) threads *= static_cast<double>(shape->grid[i]) * shape->block[i];
  const double rate = device.profile.memory_bandwidth * EfficiencyOf(OpFamily::kElementwise).memory;
  const double transfer = rate > 0 ? threads * kBytesPerThread / rate * 1e9 : 0;
  return device.profile.launch_latency + static_cast<Nanos>(std::min(transfer, 1e15));
}

std::int64_t GuessedLaunches() { return guessed.load(std::memory_order_relaxed); }

}  // namespace ebbtide::phantom

using namespace ebbtide::phantom;

int ebbtide_phantom_times_ops() { return TheDevice().config.model_times; }

void ebbtide_phantom_op_begin() { open_operators.emplace_back(); }

int ebbtide_phantom_op_launched() { return !open_operators.empty() && open_operators.back().stream != nullptr; }

void ebbtide_phantom_op_end(const char* kind, const ebbtide_phantom_tensor* tensors, size_t count) {
  if (open_operators.empty()) return;
  const std::shared_ptr<Stream> stream = std::move(open_operators.back().stream);
  open_operators.pop_back();
  if (!stream || !kind) return;
  OneOp one;
  one.op.kind = kind;
  for (size_t i = 0; i < count; ++i) {
    const ebbtide_phantom_tensor& tensor = tensors[i];
    const ebbtide::TensorId id = one.Add(tensor.storage, static_cast<ebbtide::Bytes>(tensor.storage_bytes),
                                         FromTorch(tensor.scalar_type, tensor.item_size),
                                         ebbtide::Dims(tensor.sizes, tensor.sizes + tensor.dims));
    if (tensor.role == EBBTIDE_PHANTOM_RESULT) {
      one.op.outputs.push_back(id);
    } else {
      one.op.inputs.push_back(id);
      if (tensor.role == EBBTIDE_PHANTOM_CHANGED) one.op.mutated.push_back(id);
    }
  }
  one.op.flops = Flops(one);
  // One that gives views only has launched for some reason of its own.
  stream->Extend(std::max(one.Time(), TheDevice().profile.launch_latency));
}

int64_t ebbtide_phantom_ready() { return TheDevice().streams.Ready(); }

int64_t ebbtide_phantom_guessed_launches() { return GuessedLaunches(); }
