// The replay of a plan as JSON; the fields are in docs/command-line.md.
#pragma once

#include "jobs/simulate.h"
#include "report/json.h"

namespace ebbtide::report {

Json SimulateJson(const jobs::SimulateResult& result);

}  // namespace ebbtide::report
