// What the device says of itself when asked by number (CUdevice_attribute and cudaDeviceAttr agree), and how many
// blocks of a kernel fit a multiprocessor.
#pragma once

#include <optional>
#include <string>

#include "device/profile.h"

namespace ebbtide::phantom {

inline constexpr int kDriverVersion = 13020;
inline constexpr int kWarp = 32;
inline constexpr int kThreadsPerBlock = 1024;
// Kernels are not read, so every one is taken to use this many registers per thread, and no static shared memory.
inline constexpr int kRegistersPerThread = 32;

// The value of an attribute by its number; nullopt where there is no such attribute.
std::optional<int> DeviceAttribute(const DeviceProfile& profile, int attribute);

// "0000:01:00.0" of the first GPU of the machine, "0000:02:00.0" of the second.
std::string PciBusId(int number);
// Sixteen bytes that depend on the profile and the number of the GPU on the machine, which is the last of them.
void DeviceUuid(const DeviceProfile& profile, int number, char (&uuid)[16]);

// How many blocks of a kernel fit a multiprocessor at a time; 0 where not even one does.
int BlocksPerMultiprocessor(const DeviceProfile& profile, int threads_per_block, Bytes dynamic_shared_memory);

}  // namespace ebbtide::phantom
