// The table of GPUs.
#include "report/text/gpus.h"

#include <fmt/format.h>

#include "report/text/table.h"

namespace ebbtide::report {
namespace {

constexpr int kWide = 100;  // columns from which there is room for the products' full names

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
