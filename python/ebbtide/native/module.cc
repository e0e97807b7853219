// ebbtide.native: what Python needs of the C++ libraries. No torch here.
#include "module.h"

#include <nanobind/nanobind.h>

namespace ebbtide::core {
namespace {

namespace nb = nanobind;

// The exception class that goes with a kind of error.
nb::object ClassOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kCapture: return nb::module_::import_("ebbtide.errors").attr("CaptureError");
    case ErrorKind::kPlan: return nb::module_::import_("ebbtide.errors").attr("PlanError");
    case ErrorKind::kMemory: return nb::borrow(PyExc_MemoryError);
    case ErrorKind::kStopped: return nb::borrow(PyExc_InterruptedError);
    case ErrorKind::kUnavailable: return nb::borrow(PyExc_RuntimeError);
    case ErrorKind::kInput:
    case ErrorKind::kTold: break;
  }
  return nb::borrow(PyExc_ValueError);
}

}  // namespace

void Raise(const Error& error) {
  nb::gil_scoped_acquire acquire;
  PyErr_SetString(ClassOf(error.kind).ptr(), error.message.c_str());
  throw nb::python_error();
}

}  // namespace ebbtide::core

NB_MODULE(_core, module) {
  namespace nb = nanobind;
  nb::set_leak_warnings(false);  // torch.compile keeps engines until the process ends
  module.doc() = "Ebbtide's C++ core.";
  module.def(
      "version", [] { return EBBTIDE_VERSION; }, "Version of the library, as in `ebbtide --version`.");
  ebbtide::core::AddValues(module);
  ebbtide::core::AddSignals(module);
  ebbtide::core::AddRun(module);
  ebbtide::core::AddShare(module);
  ebbtide::core::AddJobs(module);
}
