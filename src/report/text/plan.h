// Plans, and replays of them, for people.
#pragma once

#include <string>
#include <vector>

#include "jobs/plan.h"
#include "jobs/simulate.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string PlanText(const jobs::PlanResult& result, const Terminal& terminal);
std::string SimulateText(const jobs::SimulateResult& result, const Terminal& terminal);

// Why there is no plan, and what would work; empty where there is one.
std::vector<std::string> InfeasibleLines(const jobs::PlanResult& result);

// How many times as long as the plain step it takes: "1.108x"; "-" where the plain step takes no time.
std::string FormatSlowdown(Nanos time, Nanos plain);

}  // namespace ebbtide::report
