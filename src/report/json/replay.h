// A trace that went through an allocator model, as JSON; the fields are in docs/replay.md.
#pragma once

#include "jobs/replay.h"
#include "report/json.h"

namespace ebbtide::report {

Json ReplayJson(const jobs::ReplayResult& result);

}  // namespace ebbtide::report
