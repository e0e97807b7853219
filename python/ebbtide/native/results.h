// Results of jobs as Python holds them: each with its fields, its table, its page and what else it has.
#pragma once

#include <nanobind/nanobind.h>

namespace ebbtide::core {

void AddResults(nanobind::module_& module);

}  // namespace ebbtide::core
