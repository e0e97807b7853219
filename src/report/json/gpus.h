// `ebbtide gpus` as JSON.
#pragma once

#include <vector>

#include "device/profile.h"
#include "report/json.h"

namespace ebbtide::report {

// `gpus`: [{name, product, memory_bytes, ...}], with the names of the fields of profiles/*.json.
Json GpusJson(const std::vector<DeviceProfile>& gpus);

}  // namespace ebbtide::report
