// What each op of a graph needs, makes and changes, and which storages can be made again.
#include "sim/workload.h"

#include <algorithm>
#include <numeric>

#include "graph/liveness.h"

namespace ebbtide::sim {
namespace {

class Maker {
 public:
  Maker(const TrainingGraph& graph, Workload& workload)
      : graph_(graph),
        out_(workload),
        first_update_(
            static_cast<std::size_t>(std::ranges::find(graph.ops, Phase::kUpdate, &Op::phase) - graph.ops.begin())),
        seen_(graph.storages.size()) {}

  void AddOps() {
    const std::size_t n = graph_.ops.size();
    out_.needs.Reserve(n);
    out_.births.Reserve(n);
    out_.changes.Reserve(n);
    for (const OpId op : Ids<OpId>(n)) AddOp(op, graph_.op(op));
  }

  // Which storages can be made again, and by which ops.
  void AddRecipes() {
    const Lists<StorageId, OpId> writers = Transpose(out_.changes, out_.storages());
    out_.recipe.Reserve(out_.storages());
    std::vector<OpId> recipe;
    for (const StorageId s : out_.storage_ids()) {
      recipe.clear();
      if (!out_.IsState(s)) {
        recipe.push_back(out_.born[s]);
        const auto changed = writers[s];
        recipe.insert(recipe.end(), changed.begin(), changed.end());
        if (IsUsedInUpdate(s) || !std::ranges::all_of(recipe, [&](OpId op) { return CanRunAgain(op, s, writers); })) {
          recipe.clear();
        }
      }
      out_.recipe.Add(recipe);
    }
  }

 private:
  void AddOp(OpId id, const Op& op) {
    std::vector<StorageId> needs, births, changes;
    const auto take = [&](TensorId tensor, std::vector<StorageId>& list) {
      const StorageId s = graph_.tensor(tensor).storage;
      if (std::ranges::find(list, s) == list.end()) list.push_back(s);
    };
    bool only_views = !op.outputs.empty() && op.mutated.empty();
    for (TensorId tensor : op.outputs) {
      const StorageId s = graph_.tensor(tensor).storage;
      if (out_.born[s] != id) continue;
      only_views = false;
      take(tensor, births);
    }
    if (!only_views) {
      for (TensorId tensor : op.inputs) TakeNeed(tensor, id, needs);
    }
    for (TensorId tensor : op.mutated) {
      if (out_.born[graph_.tensor(tensor).storage] != id) take(tensor, changes);
    }
    out_.needs.Add(needs);
    out_.births.Add(births);
    out_.changes.Add(changes);
    out_.in_backward.push_back(op.phase != Phase::kForward);
  }

  void TakeNeed(TensorId tensor, OpId op, std::vector<StorageId>& needs) {
    const StorageId s = graph_.tensor(tensor).storage;
    if (seen_[s] == op || out_.born[s] == op) return;
    seen_[s] = op;
    needs.push_back(s);
  }

  // The update changes what earlier ops have read: nothing is run again once it has begun.
  bool IsUsedInUpdate(StorageId s) const {
    const auto uses = out_.uses[s];
    return !uses.empty() && uses.back() >= first_update_;
  }

  // Whether `op` gives the same contents for `made` when it runs again later: it always does for the same inputs, and
  // these have not changed since. State that it changes itself, as batch norm its statistics, it is given as it first
  // found it, and leaves as it is (docs/plan.md).
  bool CanRunAgain(OpId op, StorageId made, const Lists<StorageId, OpId>& writers) const {
    if (!graph_.op(op).deterministic) return false;
    for (const StorageId s : out_.needs[op]) {
      if (s == made || (out_.IsState(s) && std::ranges::find(out_.changes[op], s) != out_.changes[op].end())) continue;
      const auto changed = writers[s];
      if (changed.empty() || changed.back() < op) continue;
      if (*std::ranges::lower_bound(changed, op) < first_update_) return false;
    }
    return true;
  }

  const TrainingGraph& graph_;
  Workload& out_;
  OpId first_update_;  // the first op of the update, which may begin within backward; all ops if there is none
  IdVector<StorageId, OpId> seen_;  // the op whose needs last took it
};

}  // namespace

Workload MakeWorkload(const TrainingGraph& graph, std::vector<Nanos> times, const WorkloadOptions& options) {
  Workload out;
  out.alignment = options.alignment;
  out.time = IdVector<OpId, Nanos>(std::move(times));
  for (const Op& op : graph.ops) out.workspace.push_back(RoundUp(op.workspace, options.alignment));
  const std::vector<Lifetime> lifetimes = ComputeLiveness(graph);
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const Lifetime& life = lifetimes[s];
    out.bytes.push_back(graph.storages[s].outside ? 0 : RoundUp(graph.storages[s].bytes, options.alignment));
    out.born.push_back(life.persistent ? OpId() : life.born);
    out.outlives.push_back(life.outlives_step);
    out.last_reference.push_back(life.outlives_step ? OpId() : OpId(life.end.index() - 1));
  }
  Maker maker(graph, out);
  maker.AddOps();
  IdVector<StorageId, std::vector<OpId>> uses(out.storages());
  for (const OpId op : out.op_ids()) {
    for (const StorageId s : out.births[op]) uses[s].push_back(op);
    for (const StorageId s : out.needs[op]) uses[s].push_back(op);
  }
  out.uses.Reserve(uses.size());
  for (const auto& list : uses) out.uses.Add(list);
  maker.AddRecipes();
  return out;
}

IdVector<OpId, Bytes> PlainProfile(const Workload& workload) {
  IdVector<OpId, Bytes> live(workload.ops() + 1, 0);
  for (const StorageId s : workload.storage_ids()) {
    live[workload.IsState(s) ? OpId(0) : workload.born[s]] += workload.bytes[s];
    if (workload.last_reference[s].valid()) live[workload.last_reference[s].Next()] -= workload.bytes[s];
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  for (const OpId op : live.ids()) live[op] += workload.workspace[op];
  return live;
}

Bytes PlainPeak(const Workload& workload) {
  const IdVector<OpId, Bytes> profile = PlainProfile(workload);
  return profile.empty() ? 0 : *std::ranges::max_element(profile);
}

Nanos PlainTime(const Workload& workload) {
  return std::accumulate(workload.time.begin(), workload.time.end(), Nanos{0});
}

}  // namespace ebbtide::sim
