#include "run/profile.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "graph/dtype.h"
#include "run/cpu_device.h"

namespace ebbtide::run {
namespace {

constexpr Bytes kAlignment = 512;
constexpr std::size_t kPattern = 4096;  // elements that repeat
constexpr Bytes kSpare = kGiB;          // address space for what ops need beside their tensors, at least

// Numbers between 0.25 and 1 for reals, true, and 0 for whole numbers: an index that is always there.
template <class T, class Make>
std::vector<std::byte> Repeated(Make make) {
  std::vector<T> values;
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < kPattern; ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back(make(0.25f + 0.75f * static_cast<float>(state >> 8) / 16777216.0f));
  }
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

std::uint16_t Upper(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

std::vector<std::byte> PatternOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kComplex64: return Repeated<float>([](float v) { return v; });
    case DType::kFloat64:
    case DType::kComplex128: return Repeated<double>([](float v) { return static_cast<double>(v); });
    case DType::kBFloat16: return Repeated<std::uint16_t>(Upper);
    case DType::kFloat16:
      return Repeated<std::uint16_t>([](float v) {  // of [0.5, 1): an exponent of -1 and ten bits
        return static_cast<std::uint16_t>(0x3800 | (static_cast<std::uint16_t>(v * 1024) & 0x3ff));
      });
    case DType::kBool: return std::vector<std::byte>(kPattern, std::byte{1});
    default: return std::vector<std::byte>(kPattern, std::byte{0});
  }
}

Nanos Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Profiler::Profiler(TrainingGraph graph, std::shared_ptr<Device> device, std::unique_ptr<Kernels> kernels)
    : graph_(std::move(graph)),
      dtype_(graph_.storages.size(), DType::kUInt8),
      device_(std::move(device)),
      kernels_(std::move(kernels)) {
  std::vector<bool> known(graph_.storages.size(), false);
  for (const Tensor& tensor : graph_.tensors) {
    if (known[tensor.storage.index()]) continue;
    known[tensor.storage.index()] = true;
    dtype_[tensor.storage.index()] = tensor.dtype;
  }
  for (const Scalar& scalar : graph_.scalars) scalars_.push_back(scalar.value);
}

Result<std::unique_ptr<Profiler>> Profiler::Make(const EbbtideKernels* library, TrainingGraph graph) {
  Bytes most = 0;
  for (const Op& op : graph.ops) {
    std::set<StorageId> touched;
    for (const TensorId id : op.inputs) touched.insert(graph.tensor(id).storage);
    for (const TensorId id : op.outputs) touched.insert(graph.tensor(id).storage);
    Bytes bytes = 0;
    for (const StorageId s : touched) bytes += graph.storage(s).bytes + kAlignment;
    most = std::max(most, bytes);
  }
  // Inputs, outputs made twice over, and as much again meanwhile.
  EBB_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                       MakeCpuDevice({.capacity = RoundUp(6 * most + kSpare, kAlignment)}));
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<Kernels> kernels, Kernels::Make(library, graph));
  return std::unique_ptr<Profiler>(new Profiler(std::move(graph), std::move(device), std::move(kernels)));
}

void Profiler::Fill(Index storage, Bytes address) {
  const std::vector<std::byte> pattern = PatternOf(dtype_[storage]);
  const Bytes bytes = graph_.storages[storage].bytes;
  for (Bytes done = 0; done < bytes; done += static_cast<Bytes>(pattern.size())) {
    std::memcpy(device_->At(address + done), pattern.data(),
                static_cast<std::size_t>(std::min<Bytes>(static_cast<Bytes>(pattern.size()), bytes - done)));
  }
}

// One past the last address that they take.
Bytes Profiler::PlaceInputs(const Op& op) {
  Bytes next = 0;
  std::set<StorageId> placed;
  for (const TensorId id : op.inputs) {
    const StorageId s = graph_.tensor(id).storage;
    if (!placed.insert(s).second) continue;
    kernels_->Bind(static_cast<Index>(s.index()), device_->At(next));
    Fill(static_cast<Index>(s.index()), next);
    next += RoundUp(graph_.storage(s).bytes, kAlignment);
  }
  return next;
}

tl::expected<OpProfile, Failure> Profiler::Profile(OpId id, const ProfileOptions& options) {
  const Op& op = graph_.op(id);
  const Index number = static_cast<Index>(id.index());
  OpProfile out;
  StepMemory memory(*device_);
  std::vector<Made> made;
  kernels_->Pretend(number);
  Bytes next = PlaceInputs(op);
  // First, all memory alike: this shows which of it becomes the op's results.
  Visit visit;
  visit.op = number;
  visit.scratch_address = next;
  visit.scratch_bytes = device_->capacity() - next;
  const Requests unknown;
  memory.Begin(visit, unknown, [] { return std::vector<std::pair<Bytes, Bytes>>(); });
  if (Outcome ran = kernels_->Run(number, scalars_, memory, made); !ran)
    return tl::unexpected<Failure>(std::move(ran).error());
  out.requests = memory.RequestsOf(made);
  // Then as in training: results in their places, the rest beside.
  for (const Made& each : made) {
    out.made.push_back(each.bytes);
    visit.births.push_back({.storage = each.storage, .bytes = each.bytes, .address = next});
    next += RoundUp(each.bytes, kAlignment);
  }
  visit.scratch_address = next;
  visit.scratch_bytes = device_->capacity() - next;
  std::vector<Nanos> times;
  Nanos total = 0;
  for (int i = 0; i < options.runs && (i < 2 || total < options.enough); ++i) {
    memory.Begin(visit, out.requests, [] { return std::vector<std::pair<Bytes, Bytes>>(); });
    const Nanos begin = Now();
    if (Outcome ran = kernels_->Run(number, scalars_, memory, made); !ran)
      return tl::unexpected<Failure>(std::move(ran).error());
    times.push_back(Now() - begin);
    total += times.back();
    out.workspace = std::max(out.workspace, memory.highest() > 0 ? memory.highest() - visit.scratch_address : 0);
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  out.time = times[times.size() / 2];
  for (const TensorId input : op.inputs)
    kernels_->Bind(static_cast<Index>(graph_.tensor(input).storage.index()), nullptr);
  for (const Made& each : made) kernels_->Bind(each.storage, nullptr);
  return out;
}

}  // namespace ebbtide::run
