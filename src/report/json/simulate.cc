// Writes the fields of a replayed plan.
#include "report/json/simulate.h"

#include "report/json/plan.h"

namespace ebbtide::report {

Json SimulateJson(const jobs::SimulateResult& result) {
  const jobs::PlanResult& replayed = result.replayed;
  Json out = NewResult("simulate");
  out["model"] = replayed.model;
  out["plan"] = result.plan_file;
  out["valid"] = true;
  out["time_ns"] = replayed.planned.plan->time;
  out["peak_bytes"] = replayed.planned.plan->peak;
  out["live_peak_bytes"] = replayed.planned.outcome.peak;
  out["budget_bytes"] = replayed.budget;
  out["plain_time_ns"] = replayed.plain_time;
  out["plain_peak_bytes"] = replayed.plain_peak;
  AddOutcome(out, replayed);
  return out;
}

}  // namespace ebbtide::report
