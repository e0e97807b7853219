// A mix as one HTML page that needs nothing beside it: memory over time by job, the groups as they run, the cuts.
#pragma once

#include <string>

#include "jobs/share.h"

namespace ebbtide::report {

std::string SharePage(const jobs::ShareResult& result);

}  // namespace ebbtide::report
