// Placement policies on a trace, for people.
#pragma once

#include <string>

#include "jobs/cluster.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string ClusterText(const jobs::ClusterResult& result, const Terminal& terminal);

// "3.20 h", "42.0 s".
std::string FormatSeconds(double seconds);

}  // namespace ebbtide::report
