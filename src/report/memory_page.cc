#include "report/memory_page.h"

namespace ebbtide::report {

std::string MemoryPage(const MemoryTimeline& timeline) { return timeline.title; }

}  // namespace ebbtide::report
