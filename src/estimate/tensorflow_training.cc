// Runs the executor's steps op by op, with what a convolution takes in cuDNN's layout, and keeps what outlives a step.
#include "estimate/tensorflow_training.h"

#include <algorithm>

#include "alloc/bfc.h"
#include "device/workspace_rules.h"
#include "graph/arguments.h"
#include "graph/liveness.h"
#include "graph/shape.h"

namespace ebbtide::estimate {
namespace {

Bytes SizeOf(const Dims& shape, DType dtype) {
  return SaturatingMul(ElementCount(shape).value_or(kTooLarge), ItemSize(dtype));
}

// The most that TensorFlow gives to a way of computing a convolution (TF_CUDNN_WORKSPACE_LIMIT_IN_MB).
constexpr Bytes kWorkspaceLimit = 4 * kGiB;

struct Convolution {
  ConvolutionProblem problem;
  Bytes filter = 0;        // in cuDNN's layout
  Bytes padded_image = 0;  // of one that is padded unevenly
};

// None: not cuDNN's.
std::optional<Convolution> ConvolutionOf(const TrainingGraph& graph, const Op& op) {
  if (!op.kind.starts_with("convolution") || op.outputs.empty()) return std::nullopt;
  const auto list = [&](const char* name) { return ArgumentAs<Dims>(op, name); };
  const Dims *image = list("input_shape"), *result = list("output_shape"), *weight = list("weight_shape"),
             *stride = list("stride"), *before = list("padding"), *dilation = list("dilation");
  const std::int64_t* groups = ArgumentAs<std::int64_t>(op, "groups");
  const DType dtype = graph.tensor(op.outputs[0]).dtype;
  const auto type = ConvolutionTypeOf(dtype);
  const bool is_whole = image && result && weight && stride && before && dilation && groups;
  if (!is_whole || !type || image->size() != 4 || result->size() != 4 || weight->size() != 4 || stride->size() != 2 ||
      before->size() != 2 || dilation->size() != 2)
    return std::nullopt;
  if (*groups > 1 && *groups == (*image)[1]) return std::nullopt;  // TensorFlow's own kernels
  Convolution out;
  out.filter = SizeOf(*weight, dtype);
  Dims padded = *image;
  bool is_uneven = false;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t reach = ((*weight)[2 + i] - 1) * (*dilation)[i] + 1;
    const std::int64_t after =
        std::max<std::int64_t>(((*result)[2 + i] - 1) * (*stride)[i] + reach - (*image)[2 + i] - (*before)[i], 0);
    is_uneven = is_uneven || after > (*before)[i];
    padded[2 + i] += std::max<std::int64_t>(after - (*before)[i], 0);
  }
  if (is_uneven) out.padded_image = SizeOf(padded, dtype);
  ConvolutionProblem& problem = out.problem;
  problem.pass = op.schema.ends_with("BackpropInput")    ? ConvolutionPass::kDataGradient
                 : op.schema.ends_with("BackpropFilter") ? ConvolutionPass::kFilterGradient
                                                         : ConvolutionPass::kForward;
  problem.type = *type;
  problem.batch = (*image)[0];
  problem.in_channels = (*image)[1];
  problem.out_channels = (*result)[1];
  problem.groups = *groups;
  problem.input = {(*image)[2], (*image)[3]};
  problem.output = {(*result)[2], (*result)[3]};
  problem.filter = {(*weight)[2], (*weight)[3]};
  problem.stride = *stride;
  problem.dilation = *dilation;
  return out;
}

class Steps {
 public:
  Steps(const TrainingGraph& graph, const DeviceProfile& gpu, Sink& sink)
      : graph_(graph),
        gpu_(gpu),
        sink_(sink),
        lifetimes_(ComputeLiveness(graph)),
        releases_(graph, lifetimes_),
        held_(graph.storages.size()) {}

  void Run(std::int64_t iterations) {
    for (const StorageKind kind : {StorageKind::kParameter, StorageKind::kBuffer, StorageKind::kOptimizerState}) {
      if (!MakeAll(kind)) return;
    }
    for (std::int64_t i = 0; i < iterations; ++i) {
      sink_.BeginIteration(i);
      if (!MakeAll(StorageKind::kInput) || !Step(/*is_first=*/i == 0)) return;
      for (std::size_t k = 0; k < graph_.storages.size(); ++k) {
        const bool is_batch = graph_.storages[k].kind == StorageKind::kInput;
        if (is_batch || !IsPersistent(graph_.storages[k].kind)) Drop(StorageId(k));
      }
    }
  }

 private:
  // The first step tries out all of cuDNN's ways for each convolution, when all else that the kernel takes is there.
  bool Step(bool is_first) {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const OpId id(i);
      const Op& op = graph_.ops[i];
      for (const TensorId output : op.outputs) {
        const StorageId storage = graph_.tensor(output).storage;
        if (!held_[storage.index()].valid() && !Make(storage, id)) return false;
      }
      std::vector<RequestId> scratch;
      const auto ask = [&](Bytes bytes) {
        if (bytes <= 0) return true;
        scratch.push_back(Ask({bytes, Category::kWorkspace, StorageId(), id}));
        return scratch.back().valid();
      };
      if (const auto convolution = ConvolutionOf(graph_, op)) {
        if (!ask(convolution->filter) || !ask(convolution->padded_image)) return false;
        if (is_first) Search(convolution->problem, id);
        if (!ask(ConvolutionWorkspace(convolution->problem, gpu_))) return false;
      }
      for (const RequestId request : scratch) sink_.Free(request);
      for (const StorageId storage : releases_.After(id)) Drop(storage);
    }
    return true;
  }

  void Search(const ConvolutionProblem& problem, OpId op) {
    for (const Bytes workspace : SearchedWorkspaces(problem, gpu_)) {
      if (workspace <= kWorkspaceLimit) sink_.Try(workspace, op, Sink::From::kAllocator);
    }
  }

  bool MakeAll(StorageKind kind) {
    for (std::size_t i = 0; i < graph_.storages.size(); ++i) {
      if (graph_.storages[i].kind == kind && !Make(StorageId(i), OpId())) return false;
    }
    return true;
  }
  bool Make(StorageId storage, OpId op) {
    const Storage& made = graph_.storage(storage);
    held_[storage.index()] = Ask({made.bytes, CategoryOf(made.kind), storage, op});
    return held_[storage.index()].valid();
  }
  void Drop(StorageId storage) {
    RequestId& held = held_[storage.index()];
    if (held.valid()) sink_.Free(held);
    held = RequestId();
  }

  // Invalid: out of memory.
  RequestId Ask(const Request& request) {
    if (!sink_.Allocate(request)) return RequestId();
    return RequestId(requests_++);
  }

  const TrainingGraph& graph_;
  const DeviceProfile& gpu_;
  Sink& sink_;
  const std::vector<Lifetime> lifetimes_;
  const Releases releases_;
  std::vector<RequestId> held_;  // by storage
  std::size_t requests_ = 0;
};

class TensorMeter final : public Sink {
 public:
  TensorMeter() : device_({.total = kTooLarge, .taken = 0}), allocator_({.allow_growth = true}, device_) {}

  bool Allocate(const Request& request) override {
    const bool counts = request.category != Category::kWorkspace && request.category != Category::kInput;
    blocks_.push_back(counts && request.bytes > 0 ? allocator_.Allocate(request.bytes, alloc::StreamId(0))
                                                  : std::nullopt);
    return !counts || request.bytes == 0 || blocks_.back();
  }
  void Free(RequestId request) override {
    if (blocks_[request.index()]) allocator_.Free(blocks_[request.index()]->id);
  }
  Bytes peak() const { return allocator_.usage().allocated_peak; }

 private:
  alloc::DeviceMemory device_;
  alloc::BfcAllocator allocator_;
  std::vector<std::optional<alloc::Block>> blocks_;  // none: not counted
};

}  // namespace

void RunTensorflowTraining(const TrainingGraph& graph, const DeviceProfile& gpu, const TrainingOptions& options,
                           Sink& sink) {
  Steps(graph, gpu, sink).Run(options.iterations);
}

std::vector<Bytes> TensorflowScratch(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu) {
  const auto convolution = ConvolutionOf(graph, op);
  if (!convolution) return {};
  std::vector<Bytes> scratch = {convolution->filter};
  if (convolution->padded_image > 0) scratch.push_back(convolution->padded_image);
  scratch.push_back(ConvolutionWorkspace(convolution->problem, gpu));
  return scratch;
}

Bytes TensorflowTensorPeak(const TrainingGraph& graph) {
  TensorMeter meter;
  const DeviceProfile none;
  Steps(graph, none, meter).Run(1);
  return meter.peak();
}

Bytes TensorflowSystemReserve(const DeviceProfile& gpu) {
  if (gpu.memory < 2 * kGiB) return 225 * kMiB;
  if (gpu.compute_major <= 6) return 500 * kMiB;
  if (gpu.compute_major == 7) return 1050 * kMiB;
  return gpu.compute_major == 8 ? 1536 * kMiB : 1800 * kMiB;
}

}  // namespace ebbtide::estimate
