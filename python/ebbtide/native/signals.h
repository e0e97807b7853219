// Signals while C++ works for Python: where handlers may be called, and what must not be cut in two.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <optional>

namespace ebbtide::core {

// Calls the handlers of signals that have come, those among them that ebbtide.interrupts has noted. True: one has
// raised, and its exception is set. With the GIL.
bool SignalRaised();

// Whether Ctrl-C was pressed. Python's handlers run under the GIL, so it is asked for a few times per second only.
class Signals {
 public:
  bool Interrupted() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + std::chrono::milliseconds(100);
    nanobind::gil_scoped_acquire acquire;
    if (!SignalRaised()) return false;
    raised_.emplace();
    return true;
  }
  std::optional<nanobind::python_error>& raised() { return raised_; }

 private:
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  std::optional<nanobind::python_error> raised_;
};

}  // namespace ebbtide::core
