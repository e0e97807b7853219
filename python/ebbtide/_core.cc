// ebbtide._core: what Python needs of the C++ libraries. No torch here; errors of ours become ValueError.
#include "_core.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "graph/json.h"
#include "model/rebatch.h"

namespace nb = nanobind;

namespace {

using ebbtide::core::Raise;

std::string ReadGraphText(const std::string& path) {
  const ebbtide::Result<ebbtide::TrainingGraph> graph = [&path] {
    nb::gil_scoped_release release;
    return ebbtide::ReadGraph(path);
  }();
  if (!graph) Raise(graph.error());
  return ebbtide::ToJson(*graph);
}

ebbtide::TrainingGraph ParseGraphText(const std::string& text) {
  ebbtide::Result<ebbtide::TrainingGraph> graph = ebbtide::ParseGraph(text, "graph");
  if (!graph) Raise(graph.error());
  return *std::move(graph);
}

ebbtide::model::AnyBatch MakeAnyBatch(const std::string& first, const std::string& second) {
  ebbtide::Result<ebbtide::model::AnyBatch> any =
      ebbtide::model::AnyBatch::Make(ParseGraphText(first), ParseGraphText(second));
  if (!any) Raise(any.error());
  return *std::move(any);
}

}  // namespace

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);  // torch.compile keeps engines until the process ends
  module.doc() = "Ebbtide's C++ core.";
  module.def(
      "version", [] { return EBBTIDE_VERSION; }, "Version of the library, as in `ebbtide --version`.");
  module.def(
      "read_graph", ReadGraphText, nb::arg("path"),
      "Reads and checks a graph file (.json or .json.gz); its canonical JSON text. ValueError says what is wrong.");
  nb::class_<ebbtide::model::AnyBatch>(
      module, "AnyBatch", "The JSON texts of a step at any batch, from those of two captures (docs/capture.md).")
      .def(nb::new_(&MakeAnyBatch), nb::arg("first"), nb::arg("second"))
      .def(
          "confirm",
          [](const ebbtide::model::AnyBatch& any, const std::string& third) {
            if (const ebbtide::Status same = any.Confirm(ParseGraphText(third)); !same) Raise(same.error());
          },
          nb::arg("third"), "ValueError where a third capture is not what at() gives for its batch.")
      .def(
          "at",
          [](const ebbtide::model::AnyBatch& any, std::int64_t batch) {
            const auto graph = any.At(batch);
            if (!graph) Raise(graph.error());
            return ebbtide::ToJson(*graph);
          },
          nb::arg("batch"));
  ebbtide::core::AddRun(module);
  ebbtide::core::AddShare(module);
}
