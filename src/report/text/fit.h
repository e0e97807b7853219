// The table of `ebbtide fit`: the largest batch on each GPU, or the smallest GPU for a batch.
#pragma once

#include <string>

#include "jobs/fit.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string FitText(const jobs::FitResult& fit, const Terminal& terminal);

}  // namespace ebbtide::report
