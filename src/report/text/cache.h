// What the cache folder holds, for people.
#pragma once

#include <string>

#include "jobs/cache.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string CacheText(const jobs::CacheResult& cache, const Terminal& terminal);

}  // namespace ebbtide::report
