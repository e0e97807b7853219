// ebbtide.native: what Python cannot do itself, because a signal's handler may raise between any two of its
// instructions. A method of a C++ class is one instruction.
#include "signals.h"

#include <nanobind/stl/string.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "module.h"

namespace ebbtide::core {

namespace nb = nanobind;

bool SignalRaised() {
  if (PyErr_CheckSignals() != 0) return true;
  PyObject* const name = PyUnicode_FromString("ebbtide.interrupts");
  PyObject* const module = name ? PyImport_GetModule(name) : nullptr;
  Py_XDECREF(name);
  if (!module) return PyErr_Occurred() != nullptr;  // nobody defers anything
  PyObject* const done = PyObject_CallMethod(module, "check", nullptr);
  Py_DECREF(module);
  Py_XDECREF(done);
  return done == nullptr;
}

namespace {

// For one at a time, in the process that made it.
class Gate {
 public:
  explicit Gate(std::string what) : what_(std::move(what)) {}

  void Enter() {
    CheckProcess();
    if (taken_.exchange(true)) {
      const std::string message = what_ + " is running already, in this thread or another; expected one call at a time";
      PyErr_SetString(PyExc_RuntimeError, message.c_str());
      throw nb::python_error();
    }
  }
  void Exit() { taken_ = false; }
  void CheckProcess() const {
    if (getpid() == process_) return;
    const std::string message =
        what_ + " was made in another process, whose threads a fork does not copy; expected one made in this process";
    PyErr_SetString(PyExc_RuntimeError, message.c_str());
    throw nb::python_error();
  }

 private:
  const std::string what_;
  const pid_t process_ = getpid();
  std::atomic<bool> taken_ = false;
};

// A context of which either all is entered or nothing, and which is left whatever a signal raises meanwhile. Classes in
// Python give it `_open()` and `_shut(kind, error, trace)`; the latter may be called again, and after an _open that
// came to nothing.
class Scope {
 public:
  static nb::object Enter(nb::handle self) {
    PyObject* const opened = PyObject_CallMethod(self.ptr(), "_open", nullptr);
    if (!opened) {
      nb::python_error raised;
      Shut(self, nb::none(), nb::none(), nb::none());
      throw raised;
    }
    Py_DECREF(opened);
    return nb::borrow(self);
  }
  static void Exit(nb::handle self, nb::handle kind, nb::handle error, nb::handle trace) {
    Shut(self, kind, error, trace);
  }

 private:
  static void Shut(nb::handle self, nb::handle kind, nb::handle error, nb::handle trace) {
    std::optional<nb::python_error> first;
    for (;;) {
      PyObject* const shut = PyObject_CallMethod(self.ptr(), "_shut", "OOO", kind.ptr(), error.ptr(), trace.ptr());
      Py_XDECREF(shut);
      if (shut) break;
      const bool by_signal = !PyErr_ExceptionMatches(PyExc_Exception);
      nb::python_error raised;
      if (!first) first.emplace(std::move(raised));
      if (!by_signal) break;
    }
    if (first) throw *std::move(first);
  }
};

// A number that a library of kernels gave for something, and its function to give it back, which is called when nobody
// refers to this any more.
class Held {
 public:
  // `take(owner, what)` gives the number, 0: there is none. `give_back(owner, number)`.
  Held(std::uintptr_t take, std::uintptr_t give_back, std::uintptr_t owner, std::uintptr_t what)
      : give_back_(reinterpret_cast<GiveBack>(give_back)),  // NOLINT: ctypes knows functions by number
        owner_(reinterpret_cast<void*>(owner)),             // NOLINT
        number_(reinterpret_cast<Take>(take)(owner_, reinterpret_cast<void*>(what))) {}  // NOLINT
  ~Held() {
    if (number_ != 0) give_back_(owner_, number_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  std::uint64_t number() const { return number_; }

 private:
  using Take = std::uint64_t (*)(void* owner, void* what);
  using GiveBack = void (*)(void* owner, std::uint64_t number);
  const GiveBack give_back_;
  void* const owner_;
  const std::uint64_t number_;
};

}  // namespace

void AddSignals(nb::module_& module) {
  nb::class_<Gate>(module, "Gate",
                   "A context for one at a time, in the process that made it. RuntimeError for all else.")
      .def(nb::init<std::string>(), nb::arg("what"))
      .def("check_process", &Gate::CheckProcess, "RuntimeError in another process.")
      .def("__enter__", &Gate::Enter)
      .def("__exit__", [](Gate& gate, const nb::args&) { gate.Exit(); });
  nb::class_<Scope>(module, "Scope",
                    "A context of which either all is entered or nothing, and which is left whatever a signal raises. "
                    "Derived classes have `_open()` and `_shut(kind, error, trace)`, which may be called twice.")
      .def(nb::init<>())
      .def("__enter__", [](nb::handle self) { return Scope::Enter(self); })
      .def(
          "__exit__",
          [](nb::handle self, nb::handle kind, nb::handle error, nb::handle trace) {
            Scope::Exit(self, kind, error, trace);
          },
          nb::arg("kind").none(), nb::arg("error").none(), nb::arg("trace").none());
  nb::class_<Held>(module, "Held", "What a library's function `take` gave for `what`; given back with the object.")
      .def(nb::init<std::uintptr_t, std::uintptr_t, std::uintptr_t, std::uintptr_t>(), nb::arg("take"),
           nb::arg("give_back"), nb::arg("owner"), nb::arg("what"))
      .def_prop_ro("number", &Held::number);
}

}  // namespace ebbtide::core
