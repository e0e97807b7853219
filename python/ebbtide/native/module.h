// Parts of ebbtide.native, one file each, and how errors of ours become Python's.
#pragma once

#include <nanobind/nanobind.h>

#include "base/result.h"

namespace ebbtide::core {

// Raised by every binding that fails: the one line that says where and what was expected, as an exception of the class
// that goes with the error's kind. May be called with or without the GIL.
[[noreturn]] void Raise(const Error& error);

template <class T>
T ValueOr(Result<T> result) {
  if (!result) Raise(result.error());
  return *std::move(result);
}

void AddValues(nanobind::module_& module);
void AddSignals(nanobind::module_& module);
void AddRun(nanobind::module_& module);
void AddShare(nanobind::module_& module);
void AddJobs(nanobind::module_& module);

}  // namespace ebbtide::core
