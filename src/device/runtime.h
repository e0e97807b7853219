// What a CUDA process takes of a device beside its context and what it allocates.
#pragma once

#include "base/units.h"

namespace ebbtide {

// Kernels, which CUDA loads when they are first launched, and the handles of its libraries. Where a training was
// measured by NVML and its allocator's segments are known exactly, the rest is 14 to 34 MiB on consumer GPUs and up to
// 94 MiB on an A100 (docs/estimate.md).
inline constexpr Bytes kLoadedCode = 18 * kMiB;

}  // namespace ebbtide
