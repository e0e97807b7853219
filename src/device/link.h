// The link between a GPU and the host: each direction its own stream, a copy at a time.
#pragma once

#include "base/units.h"
#include "device/profile.h"

namespace ebbtide {

struct Link {
  double to_device = 12e9;  // bytes per second
  double to_host = 12e9;
  Nanos latency = 0;  // of each copy

  Nanos TimeIn(Bytes bytes) const { return latency + Transfer(bytes, to_device); }
  Nanos TimeOut(Bytes bytes) const { return latency + Transfer(bytes, to_host); }

 private:
  static Nanos Transfer(Bytes bytes, double bandwidth) {
    return static_cast<Nanos>(static_cast<double>(bytes) * 1e9 / bandwidth) + (bytes > 0 ? 1 : 0);
  }
};

inline Link LinkOf(const DeviceProfile& gpu) {
  return {
      .to_device = gpu.host_to_device_bandwidth, .to_host = gpu.device_to_host_bandwidth, .latency = gpu.copy_latency};
}

}  // namespace ebbtide
