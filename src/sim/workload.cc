// What each op of a graph needs, makes and changes, and which storages can be made again.
#include "sim/workload.h"

#include <algorithm>
#include <numeric>

#include "graph/collective.h"
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
    if (!graph_.op(op).deterministic || IsPointToPoint(graph_.op(op))) return false;  // nobody sends a second time
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

// Ops that run beside computation. One with scratch memory does not: that is its own only while compute stands still.
void TakeExchanges(const TrainingGraph& graph, Workload& out) {
  const auto is_beside = [](const Op& op) { return StreamOf(op) != Stream::kCompute && op.workspace == 0; };
  if (std::ranges::none_of(graph.ops, is_beside)) return;
  out.exchange.resize(graph.ops.size(), 0);
  for (const OpId op : out.op_ids()) {
    out.beside.push_back(is_beside(graph.op(op)));
    if (out.beside[op]) std::swap(out.exchange[op], out.time[op]);
  }
}

// What the communication stream uses cannot go before it is done. It works in order, so who waits for one of its ops
// has waited for all before it.
void HoldForExchanges(Workload& out) {
  if (!out.HasExchanges()) return;
  IdVector<StorageId, OpId> written_by(out.storages()), used_by(out.storages());
  std::vector<OpId> pending;  // nobody has waited for them
  out.held_until.resize(out.storages());
  const auto wait = [&](OpId waiting, auto end) {
    for (auto op = pending.begin(); op != end; ++op) {
      for (const auto& list : {out.needs[*op], out.births[*op]}) {
        for (const StorageId s : list) out.held_until[s] = waiting;
      }
    }
    pending.erase(pending.begin(), end);
  };
  for (const OpId op : out.op_ids()) {
    if (out.beside[op]) {
      pending.push_back(op);
      for (const StorageId s : out.needs[op]) used_by[s] = op;
      for (const StorageId s : out.births[op]) used_by[s] = written_by[s] = op;
      for (const StorageId s : out.changes[op]) written_by[s] = op;
      continue;
    }
    OpId last(0);  // that this one waits for; one past it
    for (const StorageId s : out.needs[op]) last = std::max(last, written_by[s].valid() ? written_by[s].Next() : last);
    for (const StorageId s : out.changes[op]) last = std::max(last, used_by[s].valid() ? used_by[s].Next() : last);
    wait(op, std::ranges::lower_bound(pending, last));
  }
  if (!pending.empty()) wait(OpId(out.ops() - 1), pending.end());
  for (const StorageId s : out.storage_ids()) {
    if (out.last_reference[s].valid() && out.held_until[s].valid())
      out.last_reference[s] = std::max(out.last_reference[s], out.held_until[s]);
  }
}

}  // namespace

Workload MakeWorkload(const TrainingGraph& graph, std::vector<Nanos> times, const WorkloadOptions& options) {
  Workload out;
  out.alignment = options.alignment;
  out.exchanges_use_host_link = options.exchanges_use_host_link;
  out.time = IdVector<OpId, Nanos>(std::move(times));
  TakeExchanges(graph, out);
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
  HoldForExchanges(out);
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
  if (!workload.HasExchanges()) return std::accumulate(workload.time.begin(), workload.time.end(), Nanos{0});
  IdVector<StorageId, Nanos> written(workload.storages(), 0), used(workload.storages(), 0);
  Nanos now = 0, exchange_free = 0;
  for (const OpId op : workload.op_ids()) {
    Nanos ready = now;
    for (const StorageId s : workload.needs[op]) ready = std::max(ready, written[s]);
    if (!workload.beside[op]) {
      for (const StorageId s : workload.changes[op]) ready = std::max(ready, used[s]);
      now = ready + workload.time[op];
      continue;
    }
    exchange_free = std::max(ready, exchange_free) + workload.exchange[op];
    for (const StorageId s : workload.needs[op]) used[s] = exchange_free;
    for (const StorageId s : workload.births[op]) used[s] = written[s] = exchange_free;
    for (const StorageId s : workload.changes[op]) written[s] = exchange_free;
  }
  return std::max(now, exchange_free);
}

}  // namespace ebbtide::sim
