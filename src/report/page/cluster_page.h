// Placement policies on a trace as one HTML page that needs nothing beside it: figures, and who ran where and when.
#pragma once

#include <string>

#include "jobs/cluster.h"

namespace ebbtide::report {

std::string ClusterPage(const jobs::ClusterResult& result);

}  // namespace ebbtide::report
