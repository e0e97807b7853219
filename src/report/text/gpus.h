// The GPUs that are built in, or one of the user's own, for people.
#pragma once

#include <string>
#include <vector>

#include "device/profile.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string GpusText(const std::vector<DeviceProfile>& gpus, const Terminal& terminal);

}  // namespace ebbtide::report
