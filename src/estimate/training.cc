// Follows references as Python, autograd and the optimizer hold them, since each free happens when the last one goes.
#include "estimate/training.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "device/workspace_rules.h"
#include "estimate/kernel_results.h"
#include "estimate/model_order.h"
#include "estimate/module_calls.h"
#include "estimate/scratch.h"
#include "estimate/wrapped_units.h"
#include "graph/arguments.h"
#include "graph/liveness.h"

namespace ebbtide::estimate {
namespace {

// The op that makes what the model returns, of one pass over a batch, and the op that follows the pass.
struct Return {
  const Op* op;
  OpId next;
};

// The last op before the layer called "loss", or where a graph has no such layer the last within a named one; one for
// each batch whose gradients are summed up.
std::vector<Return> ReturnsOf(const TrainingGraph& graph) {
  const bool names_loss = std::ranges::any_of(graph.ops, [](const Op& op) { return op.layer == "loss"; });
  const auto is_models = [&](const Op& op) { return names_loss ? op.layer != "loss" : !op.layer.empty(); };
  std::vector<Return> returns;
  const Op* last_in_layer = nullptr;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.phase == Phase::kForward && is_models(op)) last_in_layer = &op;
    if (op.phase != Phase::kForward && last_in_layer) {
      returns.push_back({std::exchange(last_in_layer, nullptr), OpId(i)});
    }
  }
  if (last_in_layer) returns.push_back({last_in_layer, OpId(graph.ops.size())});
  return returns;
}

std::vector<Lifetime> LifetimesOf(const TrainingGraph& graph, bool keeps_outputs) {
  std::vector<Lifetime> lifetimes = ComputeLiveness(graph);
  HoldArguments(graph, lifetimes);
  if (keeps_outputs) return lifetimes;
  for (const Return& each : ReturnsOf(graph)) {  // referred to until the pass is over
    for (const TensorId output : each.op->outputs) {
      Lifetime& lifetime = lifetimes[graph.tensor(output).storage.index()];
      if (!lifetime.persistent) lifetime.end = std::max(lifetime.end, each.next);
    }
  }
  return lifetimes;
}

// torch's SGD makes its momentum of the first gradients where it first uses it, behind the gradients with weight decay.
// Other optimizers make all state before the first update begins.
bool MakesStateAtUse(const TrainingGraph& graph) {
  return std::ranges::all_of(graph.storages, [](const Storage& storage) {
    return storage.kind != StorageKind::kOptimizerState || storage.name.starts_with("momentum_buffer.");
  });
}

class Training {
 public:
  Training(const TrainingGraph& graph, const DeviceProfile& gpu, const TrainingOptions& options, Sink& sink)
      : graph_(graph),
        gpu_(gpu),
        options_(options),
        sink_(sink),
        lifetimes_(LifetimesOf(graph, options.keeps_outputs)),
        releases_(graph, lifetimes_),
        makes_state_at_use_(MakesStateAtUse(graph)),
        held_(graph.storages.size()),
        is_kept_(graph.storages.size()),
        is_plain_(graph.ops.size()),
        scratch_place_(graph.ops.size()),
        pack_(graph.storages.size()) {
    MarkKept();
    FindPacks();
    wrapped_ = WrappedUnits(graph);
  }

  void Run() {
    if (!AllocateModel()) return;
    if (graph_.makes_state_early && !AllocateKind(StorageKind::kOptimizerState)) return;
    for (std::int64_t i = 0; i < options_.iterations; ++i) {
      sink_.BeginIteration(i);
      if (!Iterate()) return;
    }
  }

 private:
  // What the loop's variables refer to until the next iteration gives them new values: the loss, and what the model
  // returned.
  void MarkKept() {
    for (TensorId id : graph_.outputs) is_kept_[graph_.tensor(id).storage.index()] = true;
    if (graph_.outputs.size() > 1) return FindReturn();
    if (!options_.keeps_outputs) return;
    const std::vector<Return> returns = ReturnsOf(graph_);
    for (std::size_t i = 0; i < returns.size(); ++i) {
      const Op& before = *returns[(i + returns.size() - 1) % returns.size()].op;
      for (std::size_t j = 0; j < before.outputs.size(); ++j) {
        const StorageId storage = graph_.tensor(returns[i].op->outputs[j]).storage;
        is_kept_[storage.index()] = true;
        takes_place_of_[storage] = graph_.tensor(before.outputs[j]).storage;
      }
    }
  }

  // A graph that names what the model returned, beside the loss: the variable gets it when the model's call ends.
  void FindReturn() {
    for (std::size_t i = 0; i < graph_.ops.size() && graph_.ops[i].phase == Phase::kForward; ++i) {
      if (graph_.ops[i].layer != "loss") returns_at_ = OpId(i);
    }
  }

  bool Iterate() {
    if (options_.zero_grad == ZeroGrad::kStart) FreeGradients();
    if (!ReplaceInputs()) return false;
    Phase phase = Phase::kForward;
    bool has_gradients = false;  // of this iteration
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const OpId id(i);
      const Op& op = graph_.ops[i];
      if (op.phase != phase) {
        phase = op.phase;
        FreeReplaced();
        if (phase == Phase::kForward && !ReplaceInputs()) return false;  // the next batch of several
        if (phase == Phase::kBackward && !std::exchange(has_gradients, true) &&
            options_.zero_grad == ZeroGrad::kBeforeBackward) {
          FreeGradients();
        }
        if (phase == Phase::kUpdate && !makes_state_at_use_ && !AllocateKind(StorageKind::kOptimizerState)) {
          return false;
        }
      }
      if (phase == Phase::kUpdate && makes_state_at_use_ && !MakeStateOf(op)) return false;
      if (!RunOp(id, op)) return false;
    }
    FreeReplaced();
    if (options_.zero_grad == ZeroGrad::kEnd) FreeGradients();
    return AllocateKind(StorageKind::kOptimizerState);  // that of parameters which no update touches
  }

  bool RunOp(OpId id, const Op& op) {
    if (is_plain_[id.index()]) return MakeResults(id, op);
    if (!TakeBlasWorkspace(id, op) || !TakeDropoutStates(id, op)) return false;
    const std::vector<Scratch>& scratch = ScratchTaken(id, op);
    const std::vector<LibraryConvolution> tried = NewConvolutions(op);
    const auto order = ResultOrder(op);
    if (scratch.empty() && tried.empty() && !order) {
      is_plain_[id.index()] = true;
      return MakeResults(id, op);
    }
    auto next = scratch.begin();
    auto next_tried = tried.begin();
    std::size_t results = 0;
    const auto take_scratch = [&](std::size_t up_to) {
      ReleaseScratch(results);
      for (; next_tried != tried.end() && next_tried->after_results <= up_to; ++next_tried) TryEngines(*next_tried, id);
      for (; next != scratch.end() && next->after_results <= up_to; ++next) {
        if (!TakeScratch(*next, id)) return false;
        ReleaseScratch(results);
      }
      return true;
    };
    const auto make = [&](TensorId output) {
      const StorageId storage = graph_.tensor(output).storage;
      return !MakesAnew(storage, id) || (Make(storage, id) && take_scratch(++results));
    };
    if (!take_scratch(results)) return false;
    if (order) {
      for (const std::size_t place : *order) {
        if (place < op.outputs.size() && !make(op.outputs[place])) return false;
      }
    } else {
      for (const TensorId output : op.outputs) {
        if (!make(output)) return false;
      }
    }
    if (!take_scratch(Scratch::kWholeOp)) return false;
    ReleaseScratch(Scratch::kWholeOp);
    EndOp(id);
    return true;
  }

  // The convolutions of the op that have not been met before, where engines are tried out.
  std::vector<LibraryConvolution> NewConvolutions(const Op& op) {
    if (!options_.cudnn_benchmark) return {};
    std::vector<LibraryConvolution> found = LibraryConvolutionsOf(graph_, op, gpu_);
    std::erase_if(found, [&](const LibraryConvolution& each) { return !tried_.insert(each.problem).second; });
    return found;
  }

  void TryEngines(const LibraryConvolution& convolution, OpId op) {
    if (convolution.most_workspace > 0) sink_.Try(convolution.most_workspace, op, Sink::From::kAllocator);
    sink_.EmptyCache();
  }

  // The same in every iteration.
  const std::vector<Scratch>& ScratchTaken(OpId id, const Op& op) {
    std::uint32_t& place = scratch_place_[id.index()];
    if (place > 0) return scratch_of_[place - 1];
    std::vector<Scratch>& taken = scratch_of_.emplace_back(ScratchOf(graph_, op, gpu_));
    place = static_cast<std::uint32_t>(scratch_of_.size());
    if (options_.blas_workspace == BlasWorkspacePolicy::kPerCall) {
      if (const Bytes bytes = BlasScratchOf(graph_, op, gpu_)) taken.push_back({op.outputs.size(), bytes, 0, 0});
    }
    return taken;
  }

  // An op that takes nothing but its results, one after the other.
  bool MakeResults(OpId id, const Op& op) {
    for (const TensorId output : op.outputs) {
      const StorageId storage = graph_.tensor(output).storage;
      if (MakesAnew(storage, id) && !Make(storage, id)) return false;
    }
    EndOp(id);
    return true;
  }

  // Whether memory is asked for when the op yields a tensor of the storage.
  bool MakesAnew(StorageId storage, OpId op) const {
    const Lifetime& lifetime = lifetimes_[storage.index()];
    return !lifetime.persistent && lifetime.born == op && !IsPackedInto(storage);
  }

  void EndOp(OpId id) {
    for (const StorageId storage : releases_.After(id)) {
      if (!OutlivesOps(storage)) Drop(storage);
    }
    if (id == returns_at_) FreeReplaced();
  }

  struct HeldScratch {
    RequestId request;
    std::size_t until_results = 0, outlives = 0;
  };

  bool TakeScratch(const Scratch& scratch, OpId op) {
    const RequestId request = Ask({scratch.bytes, Category::kWorkspace, StorageId(), op});
    if (!request.valid()) return false;
    for (HeldScratch& held : scratch_) held.outlives -= held.outlives > 0 ? 1 : 0;
    scratch_.push_back({request, scratch.until_results, scratch.outlives});
    return true;
  }

  // What has lived as long as it should, the last first; all of it where the op has ended.
  void ReleaseScratch(std::size_t results) {
    for (std::size_t i = scratch_.size(); i-- > 0;) {
      const HeldScratch& held = scratch_[i];
      if (results != Scratch::kWholeOp && (held.outlives > 0 || held.until_results > results)) continue;
      sink_.Free(held.request);
      scratch_.erase(scratch_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  bool OutlivesOps(StorageId storage) const {
    return is_kept_[storage.index()] || graph_.storage(storage).kind == StorageKind::kGradient;
  }

  // A new value takes the place of the last iteration's, which goes when the new one is there.
  bool Make(StorageId storage, OpId op) {
    const bool is_shared = pack_[storage.index()].valid();
    return MakeAlone(storage, is_shared ? blocks_.at(storage).bytes : graph_.storage(storage).bytes, op);
  }

  bool MakeAlone(StorageId storage, Bytes bytes, OpId op) {
    const auto place = takes_place_of_.find(storage);
    const RequestId before =
        std::exchange(held_[(place == takes_place_of_.end() ? storage : place->second).index()], RequestId());
    if (graph_.storage(storage).outside) bytes = 0;
    held_[storage.index()] = Ask({bytes, CategoryOf(graph_.storage(storage).kind), storage, op});
    if (!held_[storage.index()].valid()) return false;
    if (!before.valid()) return true;
    if (is_kept_[storage.index()] && IsBeforeReturn(op)) {
      replaced_.push_back(before);
    } else {
      sink_.Free(before);
    }
    return true;
  }

  // What the model returned before keeps its name until the model has returned anew: behind the loss, if it computes
  // that.
  bool IsBeforeReturn(OpId op) const {
    if (!op.valid() || graph_.op(op).phase != Phase::kForward) return false;
    return graph_.loss_in_model || (returns_at_.valid() && op < returns_at_);
  }

  void FreeReplaced() {
    for (const RequestId request : replaced_) sink_.Free(request);
    replaced_.clear();
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

  // The state that an op uses and that no update has made yet.
  bool MakeStateOf(const Op& op) {
    for (const TensorId input : op.inputs) {
      const StorageId storage = graph_.tensor(input).storage;
      if (graph_.storage(storage).kind != StorageKind::kOptimizerState || held_[storage.index()].valid()) continue;
      if (!Make(storage, OpId())) return false;
    }
    return true;
  }

  bool AllocateModel() {
    for (const StorageId storage : ModelOrder(graph_)) {
      if (!Wrap(storage)) return false;
      if (!MakeAlone(storage, graph_.storage(storage).bytes, OpId())) return false;
      if (!Pack(storage)) return false;
    }
    if (whole_.valid()) sink_.Free(whole_);
    return true;
  }

  // FullyShardedDataParallel cuts a unit up on the GPU: its parameters come whole, are joined, and go when the rank has
  // its part. Before the first parameter of a unit all that is done.
  bool Wrap(StorageId storage) {
    const auto unit = wrapped_.find(storage);
    if (unit == wrapped_.end()) return true;
    if (whole_.valid()) sink_.Free(whole_);
    std::vector<RequestId> parts;
    for (const Bytes bytes : unit->second) {
      parts.push_back(Ask({bytes, Category::kParameter, StorageId(), OpId()}));
      if (!parts.back().valid()) return false;
    }
    whole_ = Ask({std::accumulate(unit->second.begin(), unit->second.end(), Bytes{0}), Category::kParameter,
                  StorageId(), OpId()});
    for (const RequestId part : parts) sink_.Free(part);
    return whole_.valid();
  }

  // ---- Blocks that several storages share: the first of them stands for it.
  struct SharedBlock {
    std::vector<StorageId> members;
    Bytes bytes = 0;
  };

  void FindPacks() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      SharedBlock block;
      const auto add = [&](TensorId id, StorageKind kind) {
        if (!id.valid()) return;
        const StorageId storage = graph_.tensor(id).storage;
        if (graph_.storage(storage).kind != kind || pack_[storage.index()].valid()) return;
        block.members.push_back(storage);
        block.bytes += graph_.storage(storage).bytes;
        pack_[storage.index()] = block.members.front();
      };
      for (const TensorId id : PackedParameters(op)) add(id, StorageKind::kParameter);
      if (PacksGradients(op)) {
        for (const TensorId id : op.outputs) add(id, StorageKind::kGradient);
      }
      if (!block.members.empty()) blocks_.emplace(block.members.front(), std::move(block));
    }
  }

  bool IsPackedInto(StorageId storage) const {
    return pack_[storage.index()].valid() && pack_[storage.index()] != storage;
  }

  // When the last of a block's parameters has come, all move into it.
  bool Pack(StorageId storage) {
    if (!pack_[storage.index()].valid()) return true;
    const SharedBlock& block = blocks_.at(pack_[storage.index()]);
    const auto is_there = [&](StorageId member) { return held_[member.index()].valid(); };
    if (!std::ranges::all_of(block.members, is_there)) return true;
    const RequestId packed = Ask({block.bytes, Category::kParameter, block.members.front(), OpId()});
    if (!packed.valid()) return false;
    for (const StorageId member : block.members) Drop(member);
    held_[block.members.front().index()] = packed;
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

  // cuDNN's generator for dropout between recurrent layers is made once, behind a seed.
  bool TakeDropoutStates(OpId id, const Op& op) {
    if (has_dropout_states_ || op.kind != "_cudnn_rnn") return true;
    const double* dropout = ArgumentAs<double>(op, "dropout");
    if (dropout == nullptr || *dropout == 0) return true;
    has_dropout_states_ = true;
    const RequestId seed = Ask({8, Category::kWorkspace, StorageId(), id});
    if (!seed.valid()) return false;
    sink_.Free(seed);
    return Ask({DropoutStates(gpu_), Category::kWorkspace, StorageId(), id}).valid();
  }

  // Invalid: out of memory. Nothing is allocated for no bytes, as in PyTorch, but the request has its number.
  RequestId Ask(Request request) {
    if (request.op.valid()) request.stream = StreamOf(graph_.op(request.op));
    if (!sink_.Allocate(request)) return RequestId();
    return RequestId(requests_++);
  }

  const TrainingGraph& graph_;
  const DeviceProfile& gpu_;
  const TrainingOptions& options_;
  Sink& sink_;
  const std::vector<Lifetime> lifetimes_;
  const Releases releases_;
  const bool makes_state_at_use_;
  std::vector<RequestId> held_;               // by storage
  std::vector<bool> is_kept_;                 // by storage
  std::vector<bool> is_plain_;                // by op: known to take nothing but its results
  std::vector<std::uint32_t> scratch_place_;  // by op: behind its place in the next; 0: not known yet
  std::vector<std::vector<Scratch>> scratch_of_;
  std::unordered_map<StorageId, StorageId> takes_place_of_;  // what the model returns, of what it returned before
  std::vector<StorageId> pack_;  // by storage: the first of those that share its block; invalid: none does
  std::unordered_map<StorageId, SharedBlock> blocks_;  // by their first
  WholeUnits wrapped_;                                 // what FullyShardedDataParallel cuts up
  RequestId whole_;                                    // the unit that is being cut up
  std::vector<HeldScratch> scratch_;                   // of the op that runs
  OpId returns_at_;                                    // with the model's results, where the graph names them
  std::vector<RequestId> replaced_;                    // the last iteration's, until then
  std::unordered_set<std::string> tried_;              // convolutions whose engines were
  std::array<bool, 2> has_blas_workspace_{};
  bool has_dropout_states_ = false;
  std::size_t requests_ = 0;
};

}  // namespace

void RunTraining(const TrainingGraph& graph, const DeviceProfile& gpu, const TrainingOptions& options, Sink& sink) {
  Training(graph, gpu, options, sink).Run();
}

}  // namespace ebbtide::estimate
