// Places an op in an empty pool, runs it a few times, and watches what it asks for.
#include "run/engine/profile.h"

#include <algorithm>
#include <set>

#include "run/device/clock.h"
#include "run/device/cpu_device.h"
#include "run/engine/made_up.h"

namespace ebbtide::run {
namespace {

constexpr Bytes kAlignment = 512;
constexpr Bytes kSpare = kGiB;  // address space for what ops need beside their tensors, at least

}  // namespace

Profiler::Profiler(TrainingGraph graph, std::shared_ptr<Device> device, std::unique_ptr<Kernels> kernels)
    : graph_(std::move(graph)), device_(std::move(device)), kernels_(std::move(kernels)) {
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
  return Make(library, std::move(graph), std::move(device), "cpu");
}

Result<std::unique_ptr<Profiler>> Profiler::Make(const EbbtideKernels* library, TrainingGraph graph,
                                                 std::shared_ptr<Device> device, const std::string& name) {
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<Kernels> kernels, Kernels::Make(library, graph, name));
  EBB_RETURN_IF_ERROR(kernels->Ready(*device));
  return std::unique_ptr<Profiler>(new Profiler(std::move(graph), std::move(device), std::move(kernels)));
}

// One past the last address that they take; -1: the pool is too small.
Bytes Profiler::PlaceInputs(const Op& op) {
  Bytes next = 0;
  std::set<StorageId> placed;
  for (const TensorId id : op.inputs) {
    const StorageId s = graph_.tensor(id).storage;
    if (!placed.insert(s).second) continue;
    if (next + graph_.storage(s).bytes > device_->capacity()) return -1;
    kernels_->Bind(s, device_->At(next));
    FillMadeUp(graph_, s, *device_, next);
    next += RoundUp(graph_.storage(s).bytes, kAlignment);
  }
  return next;
}

tl::expected<OpProfile, Failure> Profiler::Profile(OpId id, const ProfileOptions& options) {
  const Op& op = graph_.op(id);
  if (!op.deterministic)
    return tl::unexpected<Failure>(Failure{Failure::Kind::kOther, "the op gives other bits each time"});
  OpProfile out;
  StepMemory memory(*device_, device_->alignment());
  std::vector<Made> made;
  kernels_->Pretend(id);
  Bytes next = PlaceInputs(op);
  if (next < 0) return tl::unexpected<Failure>(Failure{Failure::Kind::kOutOfMemory, "the pool is too small"});
  // First, all memory alike: this shows which of it becomes the op's results.
  Instruction instruction;
  instruction.op = id;
  instruction.scratch_address = next;
  instruction.scratch_bytes = device_->capacity() - next;
  const Requests unknown;
  memory.Begin(instruction, unknown, [] { return std::vector<std::pair<Bytes, Bytes>>(); });
  const Used all[] = {{0, device_->capacity(), true}};
  const auto run = [&]() -> RunStatus {
    if (Status begun = device_->BeginOp(op.kind.c_str(), all); !begun)
      return tl::unexpected<Failure>(Failure{Failure::Kind::kOther, begun.error().message});
    RunStatus ran = kernels_->Run(id, scalars_, memory, made);
    device_->EndOp();
    return ran;
  };
  if (RunStatus ran = run(); !ran) return tl::unexpected<Failure>(std::move(ran).error());
  out.requests = memory.RequestsOf(made);
  // Then as in training: results in their places, the rest beside.
  for (const Made& each : made) {
    out.made.push_back(each.bytes);
    instruction.births.push_back({.storage = each.storage, .bytes = each.bytes, .address = next});
    next += RoundUp(each.bytes, kAlignment);
  }
  if (next > device_->capacity())
    return tl::unexpected<Failure>(Failure{Failure::Kind::kOutOfMemory, "the pool is too small"});
  instruction.scratch_address = next;
  instruction.scratch_bytes = device_->capacity() - next;
  std::vector<Nanos> times;
  Nanos total = 0;
  for (int i = 0; i < options.runs && (i < std::min(options.runs, 2) || total < options.time_limit); ++i) {
    memory.Begin(instruction, out.requests, [] { return std::vector<std::pair<Bytes, Bytes>>(); });
    device_->StartClock();
    const Nanos thread_begin = ThreadNow();
    const Nanos begin = device_->Mark();
    if (RunStatus ran = run(); !ran) return tl::unexpected<Failure>(std::move(ran).error());
    const Nanos end = device_->Mark();
    const Nanos thread_end = ThreadNow();
    device_->Drain();
    times.push_back(options.one_thread ? thread_end - thread_begin : device_->When(end) - device_->When(begin));
    total += times.back();
    out.workspace = std::max(out.workspace, memory.highest() > 0 ? memory.highest() - instruction.scratch_address : 0);
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  out.time = times[times.size() / 2];
  for (const TensorId input : op.inputs) kernels_->Bind(graph_.tensor(input).storage, nullptr);
  for (const Made& each : made) kernels_->Bind(each.storage, nullptr);
  return out;
}

}  // namespace ebbtide::run
