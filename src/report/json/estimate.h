// `ebbtide estimate` as JSON: the fields are in docs/command-line.md.
#pragma once

#include "jobs/estimate.h"
#include "report/json.h"

namespace ebbtide::report {

Json EstimateJson(const jobs::EstimateResult& prediction);

}  // namespace ebbtide::report
