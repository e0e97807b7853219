// How far what a context takes may be from what a profile says.
#pragma once

#include "device/profile.h"

namespace ebbtide {

// Contexts differ with the driver and the version of CUDA. Both ends are the profile's own figure where that was
// measured on the GPU.
struct ContextRange {
  Bytes least = 0, most = 0;
};
ContextRange ContextRangeOf(const DeviceProfile& profile);

}  // namespace ebbtide
