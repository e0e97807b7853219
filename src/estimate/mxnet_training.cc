// What binding allocates, in its order: arguments with their gradients, the blocks of the static plan, then temporary
// space as the first step grows it.
#include "estimate/mxnet_training.h"

#include <algorithm>

#include "device/workspace_rules.h"
#include "estimate/mxnet_plan.h"
#include "estimate/scratch_rules.h"
#include "graph/arguments.h"

namespace ebbtide::estimate {
namespace {

Bytes ConvolutionSpace(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu) {
  Bytes most = 0;
  const std::int64_t* limit = ArgumentAs<std::int64_t>(op, "workspace_limit_mib");
  for (const Scratch& scratch : ScratchOf(graph, op, gpu)) {
    // An algorithm that needs more than the limit is not chosen; there is always one that needs nothing.
    if (limit == nullptr || scratch.bytes / kMiB < *limit) most = std::max(most, scratch.bytes);
  }
  return most;
}

RecurrentProblem RecurrentOf(const Op& op) {
  RecurrentProblem problem;
  const Dims* input = ArgumentAs<Dims>(op, "input_shape");
  const std::string* mode = ArgumentAs<std::string>(op, "mode");
  const auto integer = [&](const char* name) {
    const std::int64_t* value = ArgumentAs<std::int64_t>(op, name);
    return value ? *value : 1;
  };
  const bool* both = ArgumentAs<bool>(op, "bidirectional");
  problem.has_cell_state = mode != nullptr && *mode == "lstm";
  problem.gates = problem.has_cell_state ? 4 : mode != nullptr && *mode == "gru" ? 3 : 1;
  problem.layers = integer("num_layers");
  problem.directions = both != nullptr && *both ? 2 : 1;
  problem.hidden_size = integer("hidden_size");
  if (input != nullptr && input->size() == 3) {
    problem.length = (*input)[0];
    problem.batch = (*input)[1];
    problem.input_size = (*input)[2];
  }
  return problem;
}

class Binding {
 public:
  Binding(const TrainingGraph& graph, const DeviceProfile& gpu, Sink& sink) : graph_(graph), gpu_(gpu), sink_(sink) {}

  void Run(std::int64_t iterations) {
    if (!AllocateArrays() || !AllocatePools()) return;
    for (std::int64_t i = 0; i < iterations; ++i) {
      sink_.BeginIteration(i);
      if (i == 0 && !FirstStep()) return;
    }
  }

 private:
  bool Ask(Bytes bytes, Category category, StorageId storage, OpId op = {}) {
    return sink_.Allocate({.bytes = bytes, .category = category, .storage = storage, .op = op});
  }

  // Arguments, their gradients and auxiliary states.
  bool AllocateArrays() {
    for (std::size_t i = 0; i < graph_.storages.size(); ++i) {
      const Storage& storage = graph_.storages[i];
      Category category = Category::kParameter;
      switch (storage.kind) {
        case StorageKind::kParameter: break;
        case StorageKind::kBuffer: category = Category::kBuffer; break;
        case StorageKind::kInput: category = Category::kInput; break;
        case StorageKind::kGradient: category = Category::kGradient; break;
        default: continue;
      }
      if (!Ask(storage.bytes, category, StorageId(i))) return false;
    }
    return true;
  }

  // The executor's blocks, the largest first. One that keeps an activation for backward counts as such.
  bool AllocatePools() {
    const MxnetPlan plan = PlanMxnet(graph_);
    struct Pool {
      Bytes bytes = 0;
      StorageId tenant;  // the largest
      bool keeps_activations = false;
    };
    std::vector<Pool> pools(plan.pools.size());
    for (std::size_t i = 0; i < pools.size(); ++i) pools[i].bytes = plan.pools[i];
    for (std::size_t i = 0; i < graph_.storages.size(); ++i) {
      if (plan.pool_of[i] == MxnetPlan::kExternal) continue;
      Pool& pool = pools[static_cast<std::size_t>(plan.pool_of[i])];
      pool.keeps_activations |= graph_.storages[i].kind == StorageKind::kActivation;
      if (!pool.tenant.valid() || graph_.storages[i].bytes > graph_.storage(pool.tenant).bytes)
        pool.tenant = StorageId(i);
    }
    std::stable_sort(pools.begin(), pools.end(), [](const Pool& a, const Pool& b) { return a.bytes > b.bytes; });
    return std::all_of(pools.begin(), pools.end(), [&](const Pool& pool) {
      return Ask(pool.bytes, pool.keeps_activations ? Category::kActivation : Category::kTemporary, pool.tenant);
    });
  }

  // Temporary space grows with the ops of the first step: what was too small goes back to the device at once.
  bool FirstStep() {
    SearchAlgorithms();
    const Bytes space = MxnetTemporarySpace(graph_, gpu_);
    if (space > 0 && !Ask(space, Category::kWorkspace, {})) return false;
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      if (op.kind != "_cudnn_rnn") continue;
      if (!Ask(RecurrentReserve(RecurrentOf(op)), Category::kWorkspace, {}, OpId(i))) return false;
    }
    for (std::size_t i = 0; i < graph_.storages.size(); ++i) {
      if (graph_.storages[i].kind != StorageKind::kOptimizerState) continue;
      if (!Ask(graph_.storages[i].bytes, Category::kOptimizerState, StorageId(i))) return false;
    }
    return true;
  }

  // A convolution's first call has cuDNN try out all its ways, forward and backward, each on tensors of cuDNN's own,
  // which it takes from the device. Ways that need more than the op's limit are tried, too, if there is room, for some
  // milliseconds; as MXNet does not use them, they are not counted.
  void SearchAlgorithms() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      auto problem = ForwardConvolutionOf(graph_, op, gpu_);
      if (!problem) continue;
      const std::int64_t* limit = ArgumentAs<std::int64_t>(op, "workspace_limit_mib");
      Bytes most = 0;
      for (const ConvolutionPass pass :
           {ConvolutionPass::kForward, ConvolutionPass::kDataGradient, ConvolutionPass::kFilterGradient}) {
        problem->pass = pass;
        for (const Bytes workspace : SearchedWorkspaces(*problem, gpu_)) {
          if (limit == nullptr || workspace / kMiB < *limit) most = std::max(most, workspace);
        }
      }
      Bytes tensors = 0;
      for (const char* name : {"input", "weight"}) tensors += SizeOf(graph_.tensor(TensorArgument(op, name)));
      tensors += SizeOf(graph_.tensor(op.outputs.front()));
      sink_.Try(tensors + most, OpId(i), Sink::From::kDevice);
    }
  }

  const TrainingGraph& graph_;
  const DeviceProfile& gpu_;
  Sink& sink_;
};

}  // namespace

Bytes MxnetTemporarySpace(const TrainingGraph& graph, const DeviceProfile& gpu) {
  Bytes most = 0;
  for (const Op& op : graph.ops) {
    if (op.kind == "convolution" || op.kind == "convolution_backward")
      most = std::max(most, ConvolutionSpace(graph, op, gpu));
    if (op.kind == "_cudnn_rnn" || op.kind == "_cudnn_rnn_backward")
      most = std::max(most, RecurrentWorkspace(RecurrentOf(op)));
  }
  return most;
}

void RunMxnetTraining(const TrainingGraph& graph, const DeviceProfile& gpu, const TrainingOptions& options,
                      Sink& sink) {
  Binding(graph, gpu, sink).Run(options.iterations);
}

}  // namespace ebbtide::estimate
