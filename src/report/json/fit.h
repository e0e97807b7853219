// `ebbtide fit` as JSON: the fields are in docs/command-line.md.
#pragma once

#include "jobs/fit.h"
#include "report/json.h"

namespace ebbtide::report {

Json FitJson(const jobs::FitResult& fit);

}  // namespace ebbtide::report
