// A GPU as Ebbtide knows it: data read from profiles/*.json or from a user's own file of that form.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide {

struct DeviceProfile {
  std::string name;     // "a100-40gb": what --gpu takes
  std::string product;  // "NVIDIA A100-SXM4-40GB": what the driver reports

  // ---- Memory
  Bytes memory = 0;   // what the driver reports as total, the ECC and firmware share already gone
  Bytes context = 0;  // a process's CUDA context with lazily loaded kernels, before any allocation

  // ---- The chip
  std::int64_t compute_major = 0, compute_minor = 0;
  std::int64_t multiprocessors = 0;
  std::int64_t threads_per_multiprocessor = 0;
  std::int64_t blocks_per_multiprocessor = 0;
  std::int64_t registers_per_multiprocessor = 65536;
  Bytes shared_memory_per_block = 48 * kKiB;
  Bytes shared_memory_per_block_optin = 0;
  Bytes shared_memory_per_multiprocessor = 0;
  Bytes l2_cache = 0;
  std::int64_t clock_khz = 0;
  std::int64_t memory_clock_khz = 0;
  std::int64_t memory_bus_bits = 0;

  // ---- Speed, per second
  double float32_flops = 0;  // without tensor cores
  double tf32_flops = 0;     // tensor cores on float32 data; 0: it has none for that
  double float16_flops = 0;  // tensor cores where it has them
  double bfloat16_flops = 0;
  double float64_flops = 0;
  double memory_bandwidth = 0;          // bytes
  double host_to_device_bandwidth = 0;  // bytes, pinned memory, measured rather than nominal
  double device_to_host_bandwidth = 0;
  Nanos copy_latency = 0;    // from the request to the first byte
  Nanos launch_latency = 0;  // of an empty kernel, back to back

  // ---- Other GPUs, bytes per second each way
  double link_bandwidth = 0;           // to GPUs of the same machine; 0: over PCIe, as to the host
  Nanos link_latency = 5000;           // of one message
  double network_bandwidth = 1.25e10;  // to GPUs of other machines, for each GPU
  Nanos network_latency = 15000;
  std::int64_t machine_gpus = 8;  // GPUs of one machine

  double LinkBandwidth() const { return link_bandwidth > 0 ? link_bandwidth : device_to_host_bandwidth; }

  std::map<std::string, std::string> sources;  // by JSON field: where the number comes from
};

// The text of a profile file. `place` opens the errors.
Result<DeviceProfile> ParseProfile(std::string_view text, const std::string& place);

// --gpu: a built-in name, or the path of a profile file (it holds a '/' or ends in .json).
Result<DeviceProfile> FindProfile(const std::string& name_or_path);

// In the order of their names.
const std::vector<DeviceProfile>& BuiltInProfiles();

}  // namespace ebbtide
