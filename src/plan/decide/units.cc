// Collects, for each op that makes something which can be made again, the ops that have to run for it.
#include "plan/decide/units.h"

#include <algorithm>

namespace ebbtide::plan {
namespace {

// The first op after `op` that changes what `op` reads, as far as `op` does not change it itself; the end: none does.
OpId FirstSpoiler(const sim::Workload& workload, const sim::Lists<StorageId, OpId>& writers, OpId op) {
  OpId first = workload.time.end_id();
  const auto changes = workload.changes[op];
  for (const StorageId s : workload.needs[op]) {
    if (std::ranges::find(changes, s) != changes.end()) continue;
    const auto changed = writers[s];
    const auto later = std::ranges::upper_bound(changed, op);
    if (later != changed.end()) first = std::min(first, *later);
  }
  return first;
}

Unit MakeUnit(const sim::Workload& workload, const sim::Lists<StorageId, OpId>& writers, OpId maker) {
  Unit out;
  std::vector<OpId> ops = {maker};
  Bytes beside = 0;  // made by the maker, and of no use
  for (const StorageId s : workload.births[maker]) {
    const auto recipe = workload.recipe[s];
    if (recipe.empty()) {
      beside += workload.bytes[s];
      continue;
    }
    out.returns.push_back(s);
    ops.insert(ops.end(), recipe.begin(), recipe.end());
  }
  if (out.returns.empty()) return out;
  std::ranges::sort(ops);
  ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
  out.last_stage = workload.time.end_id();
  Nanos time = 0;
  Bytes scratch = 0;
  for (const OpId op : ops) {
    Bytes own = workload.workspace[op] + (op == maker ? beside : 0);
    if (op != maker) {
      for (const StorageId s : workload.births[op]) own += workload.bytes[s];
    }
    time += workload.Cost(op);
    scratch = std::max(scratch, own);
    out.parts.push_back({op, time, scratch});
    out.last_stage = std::min(out.last_stage, FirstSpoiler(workload, writers, op));
    for (const StorageId s : workload.needs[op]) {
      const bool known = workload.IsState(s) || std::ranges::find(out.returns, s) != out.returns.end() ||
                         std::ranges::find(out.needs, s, &Unit::Need::storage) != out.needs.end();
      if (!known) out.needs.push_back({s, op});
    }
  }
  return out;
}

}  // namespace

Units FindUnits(const Problem& problem) {
  const sim::Workload& workload = *problem.workload;
  Units out;
  out.of.resize(workload.storages());
  out.by_maker.resize(workload.ops());
  if (!problem.limits.may_recompute) return out;
  const sim::Lists<StorageId, OpId> writers = sim::Transpose(workload.changes, workload.storages());
  for (const OpId op : workload.op_ids()) {
    Unit unit = MakeUnit(workload, writers, op);
    if (unit.returns.empty()) continue;
    const UnitId id = out.units.end_id();
    for (const StorageId s : unit.returns) out.of[s] = id;
    out.by_maker[op] = id;
    out.units.push_back(std::move(unit));
  }
  return out;
}

}  // namespace ebbtide::plan
