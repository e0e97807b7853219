// A plan's result as JSON; the fields are in docs/command-line.md.
#pragma once

#include "jobs/plan.h"
#include "report/json.h"

namespace ebbtide::report {

Json PlanJson(const jobs::PlanResult& result);

// What a plan does in its iteration, beside what is there already: waits, copies, and how storages are handled.
void AddOutcome(Json& out, const jobs::PlanResult& result);

}  // namespace ebbtide::report
