// ebbtide._core: what Python needs of the C++ libraries. No torch here; errors of ours become ValueError.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

NB_MODULE(_core, module) {
  module.doc() = "Ebbtide's C++ core.";
  module.def("version", [] { return EBBTIDE_VERSION; }, "Version of the library, as in `ebbtide --version`.");
}
