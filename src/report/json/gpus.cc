// `ebbtide gpus` as JSON.
#include "report/json/gpus.h"

#include <fmt/format.h>

#include "device/context_range.h"

namespace ebbtide::report {
namespace {

Json GpuJson(const DeviceProfile& gpu) {
  Json out = Json::object();
  out["name"] = gpu.name;
  out["product"] = gpu.product;
  out["memory_bytes"] = gpu.memory;
  out["context_bytes"] = gpu.context;
  out["context_least_bytes"] = ContextRangeOf(gpu).least;
  out["context_most_bytes"] = ContextRangeOf(gpu).most;
  out["available_bytes"] = gpu.memory - gpu.context;
  out["compute_capability"] = fmt::format("{}.{}", gpu.compute_major, gpu.compute_minor);
  out["multiprocessors"] = gpu.multiprocessors;
  out["float32_flops"] = gpu.float32_flops;
  out["tf32_flops"] = gpu.tf32_flops;
  out["float16_flops"] = gpu.float16_flops;
  out["bfloat16_flops"] = gpu.bfloat16_flops;
  out["float64_flops"] = gpu.float64_flops;
  out["memory_bandwidth"] = gpu.memory_bandwidth;
  out["host_to_device_bandwidth"] = gpu.host_to_device_bandwidth;
  out["device_to_host_bandwidth"] = gpu.device_to_host_bandwidth;
  out["copy_latency_ns"] = gpu.copy_latency;
  out["launch_latency_ns"] = gpu.launch_latency;
  out["sources"] = Json(gpu.sources);
  return out;
}

}  // namespace

Json GpusJson(const std::vector<DeviceProfile>& gpus) {
  Json result = NewResult("gpus");
  result["gpus"] = Json::array();
  for (const DeviceProfile& gpu : gpus) result["gpus"].push_back(GpuJson(gpu));
  return result;
}

}  // namespace ebbtide::report
