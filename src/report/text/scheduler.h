// What a scheduler is to be asked for so that a training has the memory it needs, in that scheduler's words.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "jobs/estimate.h"
#include "report/json.h"

namespace ebbtide::report {

// "hami", ...
std::vector<std::string> SchedulerNames();
Status CheckScheduler(const std::string& name);

// Lines to copy, each ending in '\n', with comments that say what they assume. They ask for the estimate's safe figure.
// The name must be known.
std::string SchedulerLines(const std::string& name, const jobs::EstimateResult& result);
// {scheduler, memory_mib, gpus, text}.
Json SchedulerJson(const std::string& name, const jobs::EstimateResult& result);

}  // namespace ebbtide::report
