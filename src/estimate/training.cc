#include "estimate/training.h"

#include <algorithm>
#include <array>
#include <utility>

#include "device/workspace_rules.h"
#include "estimate/scratch.h"
#include "graph/liveness.h"

namespace ebbtide::estimate {
namespace {

Category CategoryOf(StorageKind kind) {
  switch (kind) {
    case StorageKind::kParameter: return Category::kParameter;
    case StorageKind::kBuffer: return Category::kBuffer;
    case StorageKind::kGradient: return Category::kGradient;
    case StorageKind::kOptimizerState: return Category::kOptimizerState;
    case StorageKind::kInput: return Category::kInput;
    case StorageKind::kActivation: return Category::kActivation;
    case StorageKind::kTemporary: return Category::kTemporary;
  }
  return Category::kTemporary;
}

// Optimizers that make their state when they are made; the others do in their first update.
bool MakesStateEarly(const TrainingGraph& graph) {
  const auto found = graph.meta.find("optimizer");
  return found != graph.meta.end() && found->second == "adagrad";
}

class Training {
 public:
  Training(const TrainingGraph& graph, const DeviceProfile& gpu, const TrainingOptions& options, Sink& sink)
      : graph_(graph),
        gpu_(gpu),
        options_(options),
        sink_(sink),
        lifetimes_(ComputeLiveness(graph)),
        releases_(graph, lifetimes_),
        held_(graph.storages.size()),
        is_kept_(graph.storages.size()) {
    MarkKept();
  }

  void Run() {
    if (!AllocateModel()) return;
    if (MakesStateEarly(graph_) && !AllocateKind(StorageKind::kOptimizerState)) return;
    for (std::int64_t i = 0; i < options_.iterations; ++i) {
      sink_.BeginIteration(i);
      if (!Iterate()) return;
    }
  }

 private:
  // What the loop's variables refer to until the next iteration gives them new values: the loss, and what the model
  // returned, which the last op within a named layer makes.
  void MarkKept() {
    for (TensorId id : graph_.outputs) is_kept_[graph_.tensor(id).storage.index()] = true;
    for (auto op = graph_.ops.rbegin(); op != graph_.ops.rend(); ++op) {
      if (op->phase != Phase::kForward || op->layer.empty()) continue;
      for (TensorId id : op->outputs) is_kept_[graph_.tensor(id).storage.index()] = true;
      break;
    }
  }

  bool Iterate() {
    if (options_.zero_grad == ZeroGrad::kStart) FreeGradients();
    if (!ReplaceInputs()) return false;
    Phase phase = Phase::kForward;
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const OpId id(i);
      const Op& op = graph_.ops[i];
      if (op.phase != phase) {
        phase = op.phase;
        if (phase == Phase::kBackward && options_.zero_grad == ZeroGrad::kBeforeBackward) FreeGradients();
        if (phase == Phase::kUpdate && !AllocateKind(StorageKind::kOptimizerState)) return false;
      }
      if (!RunOp(id, op)) return false;
    }
    if (options_.zero_grad == ZeroGrad::kEnd) FreeGradients();
    return true;
  }

  bool RunOp(OpId id, const Op& op) {
    if (!TakeBlasWorkspace(id, op)) return false;
    std::vector<Scratch> scratch = ScratchOf(graph_, op, gpu_);
    if (options_.blas_workspace == BlasWorkspacePolicy::kPerCall) {
      if (const Bytes bytes = BlasScratchOf(graph_, op, gpu_)) scratch.push_back({op.outputs.size(), bytes});
    }
    auto next = scratch.begin();
    const auto take_scratch = [&](std::size_t results) {
      for (; next != scratch.end() && next->after_results == results; ++next) {
        const RequestId request = Ask({next->bytes, Category::kWorkspace, StorageId(), id});
        if (!request.valid()) return false;
        sink_.Free(request);
      }
      return true;
    };
    std::size_t results = 0;
    if (!take_scratch(results)) return false;
    for (TensorId output : op.outputs) {
      const StorageId storage = graph_.tensor(output).storage;
      if (lifetimes_[storage.index()].persistent || lifetimes_[storage.index()].born != id) continue;
      if (!Make(storage, id) || !take_scratch(++results)) return false;
    }
    while (next != scratch.end()) {
      if (!take_scratch(next->after_results)) return false;
    }
    for (StorageId storage : releases_.After(id)) {
      if (!OutlivesOps(storage)) Drop(storage);
    }
    return true;
  }

  bool OutlivesOps(StorageId storage) const {
    return is_kept_[storage.index()] || graph_.storage(storage).kind == StorageKind::kGradient;
  }

  // A new value takes the place of the last iteration's, which goes when the new one is there.
  bool Make(StorageId storage, OpId op) {
    const RequestId before = held_[storage.index()];
    const Storage& made = graph_.storage(storage);
    held_[storage.index()] = Ask({made.bytes, CategoryOf(made.kind), storage, op});
    if (!held_[storage.index()].valid()) return false;
    if (before.valid()) sink_.Free(before);
    return true;
  }

  void Drop(StorageId storage) {
    RequestId& held = held_[storage.index()];
    if (held.valid()) sink_.Free(held);
    held = RequestId();
  }

  bool AllocateKind(StorageKind kind) {
    for (std::size_t i = 0; i < graph_.storages.size(); ++i) {
      if (graph_.storages[i].kind != kind || held_[i].valid()) continue;
      if (!Make(StorageId(i), OpId())) return false;
    }
    return true;
  }

  // Module by module, each with its parameters and then its buffers, as nn.Module.to moves them.
  bool AllocateModel() {
    for (std::size_t i = 0; i < graph_.storages.size(); ++i) {
      const StorageKind kind = graph_.storages[i].kind;
      if (kind != StorageKind::kParameter && kind != StorageKind::kBuffer) continue;
      if (!Make(StorageId(i), OpId())) return false;
    }
    return true;
  }

  // The names of a batch get their new values when all of it is there.
  bool ReplaceInputs() {
    std::vector<RequestId> before;
    for (std::size_t i = 0; i < graph_.storages.size(); ++i) {
      if (graph_.storages[i].kind != StorageKind::kInput) continue;
      if (held_[i].valid()) before.push_back(std::exchange(held_[i], RequestId()));
      if (!Make(StorageId(i), OpId())) return false;
    }
    for (RequestId request : before) sink_.Free(request);
    return true;
  }

  void FreeGradients() {
    for (std::size_t i = 0; i < graph_.storages.size(); ++i) {
      if (graph_.storages[i].kind == StorageKind::kGradient) Drop(StorageId(i));
    }
  }

  bool TakeBlasWorkspace(OpId id, const Op& op) {
    bool& taken = has_blas_workspace_[op.phase == Phase::kBackward];
    if (taken || options_.blas_workspace != BlasWorkspacePolicy::kKept || !UsesCublas(op)) return true;
    taken = true;
    return Ask({BlasWorkspace(gpu_), Category::kWorkspace, StorageId(), id}).valid();
  }

  // Invalid: out of memory. Nothing is allocated for no bytes, as in PyTorch, but the request has its number.
  RequestId Ask(const Request& request) {
    if (!sink_.Allocate(request)) return RequestId();
    return RequestId(requests_++);
  }

  const TrainingGraph& graph_;
  const DeviceProfile& gpu_;
  const TrainingOptions& options_;
  Sink& sink_;
  const std::vector<Lifetime> lifetimes_;
  const Releases releases_;
  std::vector<RequestId> held_;  // by storage
  std::vector<bool> is_kept_;    // by storage
  std::array<bool, 2> has_blas_workspace_{};
  std::size_t requests_ = 0;
};

}  // namespace

void RunTraining(const TrainingGraph& graph, const DeviceProfile& gpu, const TrainingOptions& options, Sink& sink) {
  Training(graph, gpu, options, sink).Run();
}

}  // namespace ebbtide::estimate
