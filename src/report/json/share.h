// What `ebbtide share --json` prints.
#pragma once

#include "jobs/share.h"
#include "report/json.h"

namespace ebbtide::report {

// The fields are in docs/command-line.md.
Json ShareJson(const jobs::ShareResult& result);

}  // namespace ebbtide::report
