// Parts of ebbtide._core, one file each.
#pragma once

#include <nanobind/nanobind.h>

#include "base/result.h"

namespace ebbtide::core {

// Raised by every binding whose input is wrong: the one line that says where and what was expected.
[[noreturn]] inline void Raise(const Error& error) { throw nanobind::value_error(error.message.c_str()); }

void AddRun(nanobind::module_& module);
void AddShare(nanobind::module_& module);

}  // namespace ebbtide::core
