// Goes through the ops of each batch.
#include "parallel/fsdp_schedule.h"

#include <algorithm>
#include <set>

namespace ebbtide::parallel {
namespace {

// Parameters of which backward reads something.
std::set<StorageId> ReadInBackward(const TrainingGraph& graph) {
  std::set<StorageId> read;
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::kBackward) continue;
    for (const TensorId id : op.inputs) {
      if (graph.storage_of(id).kind == StorageKind::kParameter) read.insert(graph.tensor(id).storage);
    }
  }
  return read;
}

// By unit, behind which op of a batch its gradients are complete.
std::map<std::size_t, std::size_t> GradientsEnds(const TrainingGraph& graph, const Units& units, const Pass& pass) {
  std::map<StorageId, std::size_t> unit_of;
  for (const auto& [parameter, gradient] : units.gradient_of) unit_of.emplace(gradient, units.unit_of.at(parameter));
  std::map<std::size_t, std::size_t> ends;
  for (std::size_t i = pass.begin; i < pass.end; ++i) {
    if (graph.ops[i].phase != Phase::kBackward) continue;
    for (const auto* list : {&graph.ops[i].outputs, &graph.ops[i].mutated}) {
      for (const TensorId id : *list) {
        const StorageId storage = graph.tensor(id).storage;
        if (graph.storage(storage).kind != StorageKind::kGradient) continue;
        if (const auto found = unit_of.find(storage); found != unit_of.end()) ends[found->second] = i + 1;
      }
    }
  }
  return ends;
}

}  // namespace

std::vector<Pass> BatchesOf(const TrainingGraph& graph, const Layout& layout) {
  return layout.pp > 1 ? std::vector{Pass{0, graph.ops.size()}} : PassesOf(graph);
}

bool StaysGathered(const Unit& unit, const Layout& layout) {
  return unit.name.empty() || !layout.reshard_after_forward || layout.pp > 1;
}

UnitSchedule ScheduleOf(const TrainingGraph& graph, const Units& units, const Layout& layout) {
  UnitSchedule schedule;
  const std::set<StorageId> read_in_backward = ReadInBackward(graph);
  const bool adapters_apart = layout.data == DataParallel::kFsdp1 && layout.adapters_apart;
  for (const Pass& pass : BatchesOf(graph, layout)) {
    UnitsPass& noted = schedule.passes.emplace_back();
    noted.begin = pass.begin;
    noted.units = FindUnits(graph, adapters_apart, pass).units;
    for (std::size_t i = pass.begin; i < pass.end; ++i) {
      if (graph.ops[i].phase == Phase::kBackward) noted.last_backward = OpId(i);
    }
    const std::map<std::size_t, std::size_t> ends = GradientsEnds(graph, units, pass);
    for (std::size_t u = 0; u < noted.units.size(); ++u) {
      const Unit& unit = noted.units[u];
      if (unit.InForward()) {
        schedule.forward_at.emplace(unit.forward_begin, u);
        schedule.forward_end.emplace(OpId(unit.forward_end.index() - 1), u);
      }
      const bool reads =
          std::ranges::any_of(unit.parameters, [&](StorageId id) { return read_in_backward.contains(id); });
      if (unit.InBackward() && reads && !StaysGathered(unit, layout)) {
        schedule.backward_at.emplace(unit.backward_begin, u);
        noted.backward_order.push_back(u);
      }
      if (!unit.trained || layout.pp > 1) continue;
      const auto end = ends.find(u);
      const std::size_t last = std::max<std::size_t>(unit.backward_end.index(), end == ends.end() ? 0 : end->second);
      if (last > 0) schedule.reduce_at.emplace(OpId(last - 1), u);
    }
    std::ranges::sort(noted.backward_order, {}, [&](std::size_t u) { return noted.units[u].backward_begin; });
  }
  return schedule;
}

}  // namespace ebbtide::parallel
