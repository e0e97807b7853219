// What makes a training fit, as JSON; the fields are in docs/command-line.md.
#pragma once

#include "jobs/advise.h"
#include "report/json.h"

namespace ebbtide::report {

Json AdviseJson(const jobs::AdviseResult& result);

}  // namespace ebbtide::report
