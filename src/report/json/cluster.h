// Placement policies on a trace, as JSON.
#pragma once

#include "jobs/cluster.h"
#include "report/json.h"

namespace ebbtide::report {

Json ClusterJson(const jobs::ClusterResult& result);

}  // namespace ebbtide::report
