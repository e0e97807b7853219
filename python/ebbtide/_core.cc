// ebbtide._core: what Python needs of the C++ libraries. No torch here; errors of ours become ValueError.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "graph/json.h"

namespace nb = nanobind;

namespace {

// Raised by every binding whose input is wrong: the one line that says where and what was expected.
[[noreturn]] void Raise(const ebbtide::Error& error) { throw nb::value_error(error.message.c_str()); }

std::string ReadGraphText(const std::string& path) {
  const ebbtide::Result<ebbtide::TrainingGraph> graph = [&path] {
    nb::gil_scoped_release release;
    return ebbtide::ReadGraph(path);
  }();
  if (!graph) Raise(graph.error());
  return ebbtide::ToJson(*graph);
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "Ebbtide's C++ core.";
  module.def("version", [] { return EBBTIDE_VERSION; }, "Version of the library, as in `ebbtide --version`.");
  module.def("read_graph", ReadGraphText, nb::arg("path"),
             "Reads and checks a graph file (.json or .json.gz); its canonical JSON text. ValueError says what is wrong.");
}
