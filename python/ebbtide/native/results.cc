// ebbtide.native: the results of jobs.
#include "results.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "module.h"
#include "report/json/advise.h"
#include "report/json/cluster.h"
#include "report/json/estimate.h"
#include "report/json/explain.h"
#include "report/json/fit.h"
#include "report/json/inspect.h"
#include "report/json/pack.h"
#include "report/json/plan.h"
#include "report/json/plan_trace.h"
#include "report/json/replay.h"
#include "report/json/share.h"
#include "report/json/simulate.h"
#include "report/page/choice_page.h"
#include "report/page/cluster_page.h"
#include "report/page/plan_page.h"
#include "report/page/result_page.h"
#include "report/page/share_page.h"
#include "report/snapshot/estimate_snapshot.h"
#include "report/text/advise.h"
#include "report/text/cluster.h"
#include "report/text/estimate.h"
#include "report/text/explain.h"
#include "report/text/fit.h"
#include "report/text/inspect.h"
#include "report/text/pack.h"
#include "report/text/plan.h"
#include "report/text/replay.h"
#include "report/text/share.h"
#include "values.h"

namespace ebbtide::core {
namespace {

namespace nb = nanobind;

// A result's class: to_dict(), to_json(), repr and text() as the command line prints them.
template <class Outcome>
nb::class_<Outcome> AddResult(nb::module_& module, const char* name, report::Json (*fields)(const Outcome&),
                              std::string (*text)(const Outcome&, const report::Terminal&)) {
  const auto table = [text](const Outcome& result, int width) {
    return text(result, report::Terminal{.interactive = false, .color = false, .unicode = true, .width = width});
  };
  return nb::class_<Outcome>(module, name)
      .def(
          "to_json", [fields](const Outcome& result) { return report::Print(fields(result)); },
          "The text that the command prints with --json.")
      .def(
          "to_dict",
          [fields](const Outcome& result) {
            return nb::module_::import_("json").attr("loads")(report::Print(fields(result)));
          },
          nb::sig("def to_dict(self) -> dict[str, Any]"), "The object that the command prints with --json.")
      .def("text", table, nb::arg("width") = 100, "The table that the command prints.")
      .def("__repr__", [table](const Outcome& result) { return table(result, 100); })
      .def(
          "_repr_html_",
          [fields, table](const Outcome& result) {
            const nb::object dict = nb::module_::import_("json").attr("loads")(report::Print(fields(result)));
            return nb::module_::import_("ebbtide.notebook").attr("render")(dict, table(result, 100));
          },
          nb::sig("def _repr_html_(self) -> str"), "What a notebook shows: a chart and the table.");
}

// Of results that have none of their own: what `ebbtide report` makes.
template <class Outcome>
void AddPlainPage(nb::class_<Outcome> result, report::Json (*fields)(const Outcome&)) {
  result.def(
      "page", [fields](const Outcome& made) { return ValueOr(report::ResultPage(fields(made))); }, "An HTML page.");
}

std::string TraceOf(const jobs::PlanResult& result) {
  if (!result.feasible()) Raise({"there is no plan to show"});
  return report::PlanTrace(result);
}

std::optional<Plan> PlanOf(const jobs::PlanResult& result) {
  if (!result.feasible()) return std::nullopt;
  return Plan{std::make_shared<const plan::Plan>(*result.planned.plan)};
}

nb::bytes SnapshotOf(const jobs::EstimateResult& result) {
  const std::string pickle = report::EstimateSnapshot(result);
  return nb::bytes(pickle.data(), pickle.size());
}

}  // namespace

void AddResults(nb::module_& module) {
  AddResult<jobs::EstimateResult>(module, "EstimateResult", &report::EstimateJson, &report::EstimateText)
      .def_prop_ro("fits", [](const jobs::EstimateResult& result) { return result.estimate.fits; })
      .def("page", &report::EstimatePage, "An HTML page with memory over time.")
      .def("snapshot", &SnapshotOf, "A pickle as torch's memory snapshots are.");
  AddResult<jobs::PlanResult>(module, "PlanResult", &report::PlanJson, &report::PlanText)
      .def_prop_ro("feasible", &jobs::PlanResult::feasible)
      .def_prop_ro("plan", &PlanOf, "The Plan; None: there is none within the budget.")
      .def("page", &report::PlanPage, "An HTML page with the timeline.")
      .def("trace", &TraceOf, "The timeline, for Perfetto.");
  AddResult<jobs::SimulateResult>(module, "SimulateResult", &report::SimulateJson, &report::SimulateText)
      .def(
          "page", [](const jobs::SimulateResult& result) { return report::PlanPage(result.replayed); },
          "An HTML page with the timeline.")
      .def(
          "trace", [](const jobs::SimulateResult& result) { return TraceOf(result.replayed); },
          "The timeline, for Perfetto.");
  AddResult<jobs::ShareResult>(module, "ShareResult", &report::ShareJson, &report::ShareText)
      .def_prop_ro("fits", [](const jobs::ShareResult& result) { return result.mix.fits; })
      .def("page", &report::SharePage, "An HTML page with memory over time.");
  AddPlainPage(AddResult<jobs::FitResult>(module, "FitResult", &report::FitJson, &report::FitText), &report::FitJson);
  AddPlainPage(AddResult<jobs::ReplayResult>(module, "ReplayResult", &report::ReplayJson, &report::ReplayText),
               &report::ReplayJson);
  AddPlainPage(AddResult<jobs::AdviseResult>(module, "AdviseResult", &report::AdviseJson, &report::AdviseText),
               &report::AdviseJson);
  AddPlainPage(AddResult<jobs::ExplainResult>(module, "ExplainResult", &report::ExplainJson, &report::ExplainText),
               &report::ExplainJson);
  AddResult<jobs::ClusterResult>(module, "ClusterResult", &report::ClusterJson, &report::ClusterText)
      .def("page", &report::ClusterPage, "An HTML page with a Gantt chart.");
  AddPlainPage(AddResult<jobs::PackResult>(module, "PackResult", &report::PackJson, &report::PackText),
               &report::PackJson);
  AddPlainPage(AddResult<jobs::InspectResult>(module, "InspectResult", &report::InspectJson, &report::InspectText),
               &report::InspectJson);
}

}  // namespace ebbtide::core
