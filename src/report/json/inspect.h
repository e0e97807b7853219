// `ebbtide inspect` as JSON: the fields are in docs/command-line.md.
#pragma once

#include "jobs/inspect.h"
#include "report/json.h"

namespace ebbtide::report {

Json InspectJson(const jobs::InspectResult& inspection);

}  // namespace ebbtide::report
