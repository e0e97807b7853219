#include "run/itinerary.h"

#include <algorithm>
#include <map>

#include "sim/simulate.h"

namespace ebbtide::run {
namespace {

using sim::Begin;
using sim::End;
using sim::Stay;

void FindHomes(const TrainingGraph& graph, const sim::Schedule& schedule, Itinerary& out) {
  out.home.assign(graph.storages.size(), -1);
  for (const Stay& stay : schedule.stays) {
    if (graph.storages[stay.storage].outside) continue;
    if (stay.begin == Begin::kPresent) out.home[stay.storage] = stay.address;
    if (stay.begin == Begin::kPresent && stay.end != End::kStays) out.moved.push_back(stay.storage);
  }
}

// Where the storages of a step go: a stay that begins with it, or the space beside its scratch memory.
void PlaceBirths(const TrainingGraph& graph, const sim::Workload& workload, const std::map<Index, Bytes>& begun,
                 Visit& visit) {
  for (const Index s : workload.births[visit.op]) {
    Birth birth{.storage = s, .bytes = graph.storages[s].bytes};
    const auto stay = begun.find(s);
    if (stay != begun.end()) {
      birth.address = stay->second;
    } else {
      birth.kept = workload.bytes[s] == 0;
      birth.address = visit.scratch_address;
      visit.scratch_address += workload.bytes[s];
      visit.scratch_bytes -= workload.bytes[s];
    }
    visit.births.push_back(birth);
  }
}

}  // namespace

Itinerary MakeItinerary(const TrainingGraph& graph, const sim::Workload& workload, const sim::Schedule& schedule) {
  Itinerary out;
  const Index steps = static_cast<Index>(schedule.steps.size());
  FindHomes(graph, schedule, out);
  out.visits.resize(steps + 1);
  const std::vector<bool> again = sim::RunsAgain(workload, schedule);
  const std::vector<Index> next_need = sim::NextNeeds(workload, schedule, again);
  const std::vector<Bytes> workspace = sim::StepWorkspace(workload, schedule);
  std::vector<std::map<Index, Bytes>> begun(steps + 1);
  for (Index i = 0; i < schedule.stays.size(); ++i) {
    const Stay& stay = schedule.stays[i];
    if (stay.end == End::kCopyOut) out.visits[stay.leave].leaving.push_back(i);
    if (stay.end != End::kStays) out.visits[stay.to].ending.push_back(i);
    if (stay.begin == Begin::kCopyIn) out.visits[stay.from].entering.push_back(i);
    if (stay.begin == Begin::kCompute || stay.begin == Begin::kRecompute) begun[stay.from][stay.storage] = stay.address;
  }
  std::map<Index, Index> draws;  // of ops that run again
  for (Index k = 0; k < steps; ++k) {
    if (again[k] && graph.ops[schedule.steps[k]].random)
      draws.emplace(schedule.steps[k], static_cast<Index>(draws.size()));
  }
  out.draws = static_cast<Index>(draws.size());
  out.first_update = steps;
  std::vector<bool> undone(graph.storages.size(), false);
  for (Index k = 0; k <= steps; ++k) {
    Visit& visit = out.visits[k];
    std::ranges::sort(visit.leaving, {},
                      [&](Index i) { return std::pair(schedule.stays[i].turn, schedule.stays[i].storage); });
    std::ranges::sort(visit.entering, {}, [&](Index i) { return std::pair(next_need[i], schedule.stays[i].storage); });
    visit.in_update = out.first_update < steps;
    if (k == steps) break;
    visit.op = schedule.steps[k];
    visit.again = again[k];
    if (!visit.in_update && graph.ops[visit.op].phase == Phase::kUpdate) {
      visit.in_update = true;
      out.first_update = k;
    }
    if (!schedule.workspace_address.empty() && schedule.workspace_address[k] >= 0) {
      visit.scratch_address = schedule.workspace_address[k];
      visit.scratch_bytes = workspace[k];
    }
    if (!visit.again && graph.ops[visit.op].phase == Phase::kForward) out.middle = k + 1;
    PlaceBirths(graph, workload, begun[k], visit);
    if (const auto draw = draws.find(visit.op); draw != draws.end()) visit.draw = draw->second;
    for (const Index s : workload.changes[visit.op]) {
      if (!IsPersistent(graph.storages[s].kind)) continue;
      if (visit.again) visit.protect.push_back(s);
      if (!visit.in_update && !undone[s] && !graph.storages[s].outside) {
        undone[s] = true;
        out.undo.push_back(s);
      }
    }
  }
  return out;
}

}  // namespace ebbtide::run
