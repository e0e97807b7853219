// The table of `ebbtide estimate`.
#pragma once

#include <string>

#include "jobs/estimate.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string EstimateText(const jobs::EstimateResult& prediction, const Terminal& terminal);

}  // namespace ebbtide::report
