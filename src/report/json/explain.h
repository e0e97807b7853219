// Why a training ran out of memory, as JSON; the fields are in docs/command-line.md.
#pragma once

#include "jobs/explain.h"
#include "report/json.h"

namespace ebbtide::report {

Json ExplainJson(const jobs::ExplainResult& result);

}  // namespace ebbtide::report
