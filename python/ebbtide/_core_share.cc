// ebbtide._core: pools that several engines share.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "_core_engine.h"
#include "graph/json.h"
#include "share/rehearsal.h"

namespace ebbtide::core {
namespace {

share::PipelineOptions PipelineFor(Bytes capacity) { return {.capacity = capacity}; }

std::shared_ptr<SharedPool> MakeSharedPool(const Pool& pool) {
  auto out = std::make_shared<SharedPool>();
  out->pool = pool;
  out->harbour = std::make_unique<share::Harbour>(
      share::HarbourOptions{.pipeline = PipelineFor(pool.device->capacity()), .runs_ahead = pool.gpu != nullptr});
  return out;
}

share::PlannedStep StepOf(const std::string& graph_text, const std::string& plan_text) {
  Result<TrainingGraph> graph = ParseGraph(graph_text, "graph");
  if (!graph) Raise(graph.error());
  Result<plan::Plan> plan = plan::ParsePlan(plan_text, "plan");
  if (!plan) Raise(plan.error());
  return {.graph = *std::move(graph), .plan = *std::move(plan)};
}

// Of its state, and with a lane's `enough` also of all else.
std::pair<Bytes, Bytes> NeedsOf(const std::string& graph_text, const std::string& plan_text,
                                std::optional<Bytes> enough) {
  const share::PlannedStep step = StepOf(graph_text, plan_text);
  if (!enough) return {share::StateBytes(step.graph, step.plan), 0};
  const Result<share::Mooring> mooring = share::MakeMooring(step.graph, step.plan, {.enough = *enough, .cut = {}});
  if (!mooring) Raise(mooring.error());
  return {mooring->state, mooring->height};
}

using Member = std::tuple<std::string, std::string, std::int64_t, int>;  // graph, plan, weight, priority

std::pair<Nanos, double> RehearseMembers(const std::vector<Member>& members, Bytes capacity, Bytes enough,
                                         bool one_lane, int groups, double link, const std::string& product,
                                         double share) {
  nb::gil_scoped_release unlocked;
  std::vector<share::PlannedStep> steps;
  for (const auto& [graph, plan, weight, priority] : members) {
    steps.push_back(StepOf(graph, plan));
    steps.back().weight = weight;
    steps.back().priority = priority;
  }
  share::RehearsalOptions options;
  options.pipeline = PipelineFor(capacity);
  options.one_lane = one_lane;
  options.enough = enough;
  options.cut.groups = groups;
  options.link = {.to_device = link, .to_host = link};
  options.share = share;
  const auto known = std::ranges::find(BuiltInProfiles(), product, &DeviceProfile::product);
  if (known != BuiltInProfiles().end()) options.gpu = *known;
  const Result<share::Rehearsal> rehearsal = share::Rehearse(steps, options);
  if (!rehearsal) Raise(rehearsal.error());
  return {rehearsal->round, rehearsal->overlap};
}

}  // namespace

void AddShare(nb::module_& module) {
  nb::class_<SharedPool>(module, "SharedPool", "A pool that several engines share. See src/share/harbour.h.")
      .def(nb::new_(&MakeSharedPool), nb::arg("pool"))
      .def_prop_ro(
          "held", [](const SharedPool& shared) { return shared.pool.device->ledger()->held(); },
          "Bytes that steps hold now.")
      .def_prop_ro(
          "held_peak", [](const SharedPool& shared) { return shared.pool.device->ledger()->peak(); },
          "The most at once.")
      .def("reset_peak", [](const SharedPool& shared) { shared.pool.device->ledger()->ResetPeak(); })
      .def_prop_ro("waits", [](const SharedPool& shared) { return shared.pool.gpu ? shared.pool.gpu->waits() : 0; });
  module.def(
      "shared_needs", &NeedsOf, nb::arg("graph"), nb::arg("plan"), nb::arg("enough") = nb::none(),
      "What a step takes in a pool that it shares: its state, and, where a height of a lane is given that does, all "
      "else; else 0.");
  module.def("rehearse", &RehearseMembers, nb::arg("members"), nb::arg("capacity"), nb::arg("enough"),
             nb::arg("one_lane"), nb::arg("groups"), nb::arg("link"), nb::arg("product"), nb::arg("share"),
             "How steps with plans would get on in one pool: (nanoseconds in which each is taken once, the share of "
             "groups that run beside another's). See src/share/rehearsal.h.");
}

}  // namespace ebbtide::core
