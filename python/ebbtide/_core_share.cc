// ebbtide._core: pools that several engines share.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "_core_engine.h"
#include "graph/json.h"

namespace ebbtide::core {
namespace {

std::shared_ptr<SharedPool> MakeSharedPool(const Pool& pool) {
  auto out = std::make_shared<SharedPool>();
  out->pool = pool;
  out->harbour = std::make_unique<share::Harbour>(
      share::HarbourOptions{.pipeline = {.capacity = pool.device->capacity()}, .runs_ahead = pool.gpu != nullptr});
  return out;
}

// Of its state, and with a lane's `enough` also of all else.
std::pair<Bytes, Bytes> NeedsOf(const std::string& graph_text, const std::string& plan_text,
                                std::optional<Bytes> enough) {
  const Result<TrainingGraph> graph = ParseGraph(graph_text, "graph");
  if (!graph) Raise(graph.error());
  const Result<plan::Plan> plan = plan::ParsePlan(plan_text, "plan");
  if (!plan) Raise(plan.error());
  if (!enough) return {share::StateBytes(*graph, *plan), 0};
  const Result<share::Mooring> mooring = share::MakeMooring(*graph, *plan, {.enough = *enough, .cut = {}});
  if (!mooring) Raise(mooring.error());
  return {mooring->state, mooring->height};
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
}

}  // namespace ebbtide::core
