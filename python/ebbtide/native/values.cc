// ebbtide.native: Graph, Plan and Profile, the values that all else takes and gives.
#include "values.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/hash.h"
#include "graph/json.h"
#include "model/rebatch.h"
#include "module.h"

namespace ebbtide::core {
namespace {

namespace nb = nanobind;

Graph Own(TrainingGraph graph) { return {std::make_shared<const TrainingGraph>(std::move(graph))}; }

Graph ParseText(std::string_view text, const std::string& place) {
  return Own(ValueOr([&] {
    nb::gil_scoped_release release;
    return ParseGraph(text, place);
  }()));
}

Graph GraphOfText(const nb::str& text, const std::string& place) { return ParseText(text.c_str(), place); }

Graph GraphOfBytes(const nb::bytes& text, const std::string& place) {
  return ParseText({text.c_str(), text.size()}, place);
}

Graph GraphOfFile(const std::string& path) {
  return Own(ValueOr([&] {
    nb::gil_scoped_release release;
    return ReadGraph(path);
  }()));
}

std::string TextOf(const Graph& graph) {
  nb::gil_scoped_release release;
  return ToJson(*graph.value);
}

Plan PlanOfText(const std::string& text, const std::string& place) {
  return {std::make_shared<const plan::Plan>(ValueOr([&] {
    nb::gil_scoped_release release;
    return plan::ParsePlan(text, place);
  }()))};
}

void CheckPlanOf(const Plan& plan, const Graph& graph) {
  const Status status = [&] {
    nb::gil_scoped_release release;
    return plan::CheckPlan(*plan.value, *graph.value);
  }();
  if (!status) Raise({status.error().message, ErrorKind::kPlan});
}

std::pair<Graph, Plan> InItsOrder(const Plan& plan, const Graph& graph) {
  Result<plan::Ordered> ordered = [&] {
    nb::gil_scoped_release release;
    return plan::InItsOrder(*graph.value, *plan.value);
  }();
  if (!ordered) Raise({ordered.error().message, ErrorKind::kPlan});
  return {Own(std::move(ordered->graph)), Plan{std::make_shared<const plan::Plan>(std::move(ordered->plan))}};
}

model::AnyBatch MakeAnyBatch(const Graph& first, const Graph& second) {
  return ValueOr(model::AnyBatch::Make(*first.value, *second.value));
}

void AddGraph(nb::module_& module) {
  nb::class_<Graph>(module, "Graph", "A training step as a graph (docs/graph-format.md). It has passed every check.")
      .def(nb::new_(&GraphOfText), nb::arg("text"), nb::arg("place") = "graph",
           "Of its JSON text. `place` opens the message of the ValueError that says what is wrong with it.")
      .def(nb::new_(&GraphOfBytes), nb::arg("text"), nb::arg("place") = "graph")
      .def_static("read", &GraphOfFile, nb::arg("path"), "Of a file, .json or .json.gz.")
      .def("to_json", &TextOf, "The canonical text: equal graphs have equal texts.")
      .def_prop_ro("name", [](const Graph& graph) { return graph.value->name; })
      .def_prop_ro(
          "hash", [](const Graph& graph) { return GraphHash(*graph.value); },
          "Of its storages, tensors and ops: what they are, not how long they take or what they are called.")
      .def_prop_ro(
          "ops", [](const Graph& graph) { return graph.value->ops.size(); }, "How many.")
      .def_prop_ro(
          "storages", [](const Graph& graph) { return graph.value->storages.size(); }, "How many.")
      .def("__repr__", [](const Graph& graph) {
        return fmt::format("<Graph {}: {} ops, {} storages>", graph.value->name, graph.value->ops.size(),
                           graph.value->storages.size());
      });
  nb::class_<model::AnyBatch>(module, "AnyBatch", "A step at any batch, from two captures of it (docs/capture.md).")
      .def(nb::new_(&MakeAnyBatch), nb::arg("first"), nb::arg("second"))
      .def(
          "confirm",
          [](const model::AnyBatch& any, const Graph& third) {
            if (const Status same = any.Confirm(*third.value); !same) Raise(same.error());
          },
          nb::arg("third"), "ValueError where a third capture is not what at() gives for its batch.")
      .def(
          "at", [](const model::AnyBatch& any, std::int64_t batch) { return Own(ValueOr(any.At(batch))); },
          nb::arg("batch"));
}

void AddPlanClass(nb::module_& module) {
  nb::class_<Plan>(module, "Plan", "Where every storage of a step is at every moment (docs/plan.md).")
      .def(nb::new_(&PlanOfText), nb::arg("text"), nb::arg("place") = "plan",
           "Of the text of a plan file. One that was edited is refused.")
      .def(
          "to_json", [](const Plan& plan) { return plan::PlanJson(*plan.value); }, "The text of a plan file.")
      .def("check", &CheckPlanOf, nb::arg("graph"), "PlanError where it is not for this graph, or not valid on it.")
      .def("in_its_order", &InItsOrder, nb::arg("graph"),
           "The graph with its ops in the order of the plan, and the plan for that graph. PlanError as with check().")
      .def_prop_ro("graph_name", [](const Plan& plan) { return plan.value->graph_name; })
      .def_prop_ro("graph_hash", [](const Plan& plan) { return plan.value->graph_hash; })
      .def_prop_ro("policy", [](const Plan& plan) { return plan.value->policy; })
      .def_prop_ro("gpu", [](const Plan& plan) { return plan.value->gpu; })
      .def_prop_ro("budget_bytes", [](const Plan& plan) { return plan.value->budget; })
      .def_prop_ro("peak_bytes", [](const Plan& plan) { return plan.value->peak; })
      .def_prop_ro("time_ns", [](const Plan& plan) { return plan.value->time; })
      .def_prop_ro("plain_peak_bytes", [](const Plan& plan) { return plan.value->plain_peak; })
      .def_prop_ro("plain_time_ns", [](const Plan& plan) { return plan.value->plain_time; })
      .def("__repr__", [](const Plan& plan) {
        return fmt::format("<Plan of {} for {} bytes of {}>", plan.value->policy, plan.value->budget,
                           plan.value->graph_name);
      });
}

void AddProfile(nb::module_& module) {
  nb::class_<Profile>(module, "Profile", "A GPU: its memory and its speed.")
      .def(nb::new_([](const std::string& gpu) { return Profile{ValueOr(FindProfile(gpu))}; }), nb::arg("gpu"),
           "A name that `ebbtide gpus` lists, or the path of a profile file.")
      .def_static(
          "names",
          [] {
            std::vector<std::string> names;
            for (const DeviceProfile& profile : BuiltInProfiles()) names.push_back(profile.name);
            return names;
          },
          "Of those that are built in.")
      .def_prop_ro("name", [](const Profile& profile) { return profile.value.name; })
      .def_prop_ro(
          "product", [](const Profile& profile) { return profile.value.product; }, "As the driver calls it.")
      .def_prop_ro("memory_bytes", [](const Profile& profile) { return profile.value.memory; })
      .def_prop_ro("context_bytes", [](const Profile& profile) { return profile.value.context; })
      .def("__repr__", [](const Profile& profile) { return fmt::format("<Profile {}>", profile.value.name); });
}

}  // namespace

void AddValues(nb::module_& module) {
  AddGraph(module);
  AddPlanClass(module);
  AddProfile(module);
}

}  // namespace ebbtide::core
