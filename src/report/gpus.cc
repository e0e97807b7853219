#include "report/gpus.h"

#include <fmt/format.h>

#include <cmath>

#include "report/table.h"

namespace ebbtide::report {
namespace {

constexpr int kWide = 100;  // columns from which there is room for the products' full names

Json GpuJson(const DeviceProfile& gpu) {
  Json out = Json::object();
  out["name"] = gpu.name;
  out["product"] = gpu.product;
  out["memory_bytes"] = gpu.memory;
  out["context_bytes"] = gpu.context;
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

std::string Rate(double per_second, double unit, const char* name) {
  const double value = per_second / unit;
  return fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, name);
}

std::string Flops(double per_second) { return per_second > 0 ? Rate(per_second, 1e12, "T") : ""; }

// The link, both ways where they differ.
std::string Link(const DeviceProfile& gpu) {
  const std::string in = Rate(gpu.host_to_device_bandwidth, 1e9, "GB/s");
  const std::string out = Rate(gpu.device_to_host_bandwidth, 1e9, "GB/s");
  return in == out ? in : in + ", " + out;
}

}  // namespace

Json GpusJson(const std::vector<DeviceProfile>& gpus) {
  Json result = NewResult("gpus");
  result["gpus"] = Json::array();
  for (const DeviceProfile& gpu : gpus) result["gpus"].push_back(GpuJson(gpu));
  return result;
}

std::string GpusText(const std::vector<DeviceProfile>& gpus, const Terminal& terminal) {
  const bool wide = terminal.width >= kWide;
  std::vector<Column> columns = {{.title = "gpu"},
                                 {.title = "memory", .align = Align::kRight},
                                 {.title = "context", .align = Align::kRight},
                                 {.title = "cc", .align = Align::kRight},
                                 {.title = "fp32", .align = Align::kRight},
                                 {.title = "fp16", .align = Align::kRight},
                                 {.title = "bandwidth", .align = Align::kRight},
                                 {.title = "link", .align = Align::kRight}};
  if (wide) columns.push_back({.title = "product", .shrinks = true});
  Table table(columns);
  for (const DeviceProfile& gpu : gpus) {
    std::vector<std::string> cells = {gpu.name,
                                      FormatBytes(gpu.memory),
                                      FormatBytes(gpu.context),
                                      fmt::format("{}.{}", gpu.compute_major, gpu.compute_minor),
                                      Flops(gpu.float32_flops),
                                      Flops(gpu.float16_flops),
                                      Rate(gpu.memory_bandwidth, 1e9, "GB/s"),
                                      Link(gpu)};
    if (wide) cells.push_back(gpu.product);
    table.Add(std::move(cells));
  }
  return table.Render(terminal);
}

}  // namespace ebbtide::report
