// The CPU as a device: a fixed part of its memory is the pool, and a thread each way copies at a set speed, so that the
// ratio of computing to copying can be that of a GPU.
#pragma once

#include "run/device/device.h"

namespace ebbtide::run {

struct CpuDeviceOptions {
  Bytes capacity = 0;
  double to_device = 0;  // bytes per second; 0: as fast as memory is
  double to_host = 0;
  Nanos latency = 0;  // of each copy, where a speed is set
};

// Reading or writing past the pool's last page ends the program.
Result<std::shared_ptr<Device>> MakeCpuDevice(const CpuDeviceOptions& options);

}  // namespace ebbtide::run
