// Memory over time as one HTML page that needs nothing beside it: no network, no other file.
#pragma once

#include <string>

#include "report/memory_timeline.h"

namespace ebbtide::report {

// The page holds at most a few thousand samples and the largest allocations one by one, so that it opens at once
// whatever the run was.
std::string MemoryPage(const MemoryTimeline& timeline);

}  // namespace ebbtide::report
