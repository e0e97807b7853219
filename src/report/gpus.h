// The GPUs that are built in, or one of the user's own, for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "device/profile.h"
#include "report/json.h"
#include "report/terminal.h"

namespace ebbtide::report {

// `gpus`: [{name, product, memory_bytes, ...}], with the names of the fields of profiles/*.json.
Json GpusJson(const std::vector<DeviceProfile>& gpus);
std::string GpusText(const std::vector<DeviceProfile>& gpus, const Terminal& terminal);

}  // namespace ebbtide::report
