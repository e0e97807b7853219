// vDNN (Rhu et al., 2016): the inputs of all layers, or of convolutions, go to the host while the layer runs, which
// waits for them; backward fetches one layer ahead, looking back no further than a convolution.
#include <algorithm>

#include "device/op_time.h"
#include "plan/policies/policy.h"
#include "plan/search/driver.h"

namespace ebbtide::plan {
namespace {

class Vdnn : public Driver {
 public:
  // leaves_at: the forward op during which each storage leaves; none: it stays.
  Vdnn(const PolicyInput& input, IdVector<StorageId, OpId> leaves_at)
      : Driver(input.problem, /*record=*/true),
        graph_(input.graph),
        leaves_at_(std::move(leaves_at)),
        leavers_(workload_.ops()) {
    for (const StorageId s : workload_.storage_ids()) {
      if (leaves_at_[s].valid()) leavers_[leaves_at_[s]].push_back(s);
    }
  }

 private:
  bool MakeRoom(Bytes /*room*/) override { return true; }

  void BeforeOp(OpId op) override {
    for (const StorageId s : leavers_[op]) {
      if (machine_.OnDevice(s) && !machine_.OnHost(s) && workload_.born[s] != op) machine_.BeginCopyOut(s);
    }
    if (workload_.in_backward[op]) Prefetch(op);
  }
  void AfterOp(OpId op) override {
    for (const StorageId s : leavers_[op]) {
      const OpId next = NextUse(s);
      if (!next.valid() || IsLocked(s) || !machine_.OnDevice(s)) continue;
      LeaveForHost(s);
      away_.emplace_back(next, s);
    }
  }
  void ComeBack(StorageId s) override {
    std::erase_if(away_, [&](const auto& entry) { return entry.second == s; });
  }

  void Prefetch(OpId op) {
    if (away_.empty()) return;
    const auto [next, s] = *std::ranges::min_element(away_);
    for (OpId ahead = op.Next(); ahead < next; ++ahead) {
      if (FamilyOf(graph_.op(ahead).kind) == OpFamily::kConvolutionBackward) return;
    }
    // Where there is no room beside the layer that runs, the copy is made when it is needed.
    if (machine_.used() + workload_.bytes[s] + machine_.RoomFor(op, false) <= problem_.limits.budget) BringBack(s);
  }

  const TrainingGraph& graph_;
  const IdVector<StorageId, OpId> leaves_at_;
  IdVector<OpId, std::vector<StorageId>> leavers_;
  std::vector<std::pair<OpId, StorageId>> away_;  // (next use, storage)
};

// The last forward op that reads each storage which is an input of a layer of the wanted kind.
IdVector<StorageId, OpId> Inputs(const PolicyInput& input, bool only_convolutions) {
  const sim::Workload& workload = *input.problem.workload;
  IdVector<StorageId, OpId> out(workload.storages());
  OpId last_layer(0);
  for (const OpId op : workload.op_ids()) {
    if (workload.in_backward[op]) break;
    if (FamilyOf(input.graph.op(op).kind) != OpFamily::kElementwise) last_layer = op;
  }
  for (const StorageId s : workload.storage_ids()) {
    if (workload.IsState(s) || workload.in_backward[workload.born[s]]) continue;
    OpId last_forward;
    bool is_input = false, has_backward = false;
    for (const OpId use : workload.uses[s]) {
      if (workload.in_backward[use]) {
        has_backward = true;
        break;
      }
      if (use == workload.born[s]) continue;
      last_forward = use;
      const OpFamily family = FamilyOf(input.graph.op(use).kind);
      const bool is_layer = family != OpFamily::kElementwise && family != OpFamily::kSoftmax && use != last_layer;
      is_input |= only_convolutions ? family == OpFamily::kConvolution : is_layer;
    }
    if (is_input && has_backward) out[s] = last_forward;
  }
  return out;
}

PolicyResult RunVdnn(const PolicyInput& input, bool only_convolutions) {
  if (!input.problem.limits.may_swap) return {};
  Vdnn vdnn(input, Inputs(input, only_convolutions));
  if (!vdnn.Run() || vdnn.peak() > input.problem.limits.budget) return {};
  return Found(vdnn.TakeSchedule());
}

}  // namespace

PolicyResult RunVdnnAll(const PolicyInput& input) { return RunVdnn(input, false); }
PolicyResult RunVdnnConv(const PolicyInput& input) { return RunVdnn(input, true); }

// The first that fits of nothing, convolutions, all. vDNN would then go on with algorithms that are slower and need no
// workspace. An op has one algorithm here: where its graph has no workspace, as those of built-in models, that is one
// of the fast ones at the memory of a slow one, so there is nothing left to go on to.
PolicyResult RunVdnnDyn(const PolicyInput& input) {
  for (const auto run : {RunNone, RunVdnnConv, RunVdnnAll}) {
    PolicyResult result = run(input);
    if (result.schedule) return result;
  }
  return {};
}

}  // namespace ebbtide::plan
