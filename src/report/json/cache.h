// `ebbtide cache` as JSON.
#pragma once

#include "jobs/cache.h"
#include "report/json.h"

namespace ebbtide::report {

// `folder`, `bytes`, `kinds`: [{name, what, files, bytes, cleared}].
Json CacheJson(const jobs::CacheResult& cache);

}  // namespace ebbtide::report
