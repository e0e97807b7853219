#include "report/pack.h"

#include <fmt/format.h>

#include "report/table.h"
#include "report/text.h"

namespace ebbtide::report {
namespace {

std::string Exactly(Bytes bytes) { return fmt::format("{} ({})", FormatBytes(bytes), WithSeparators(bytes)); }

std::string Over(Bytes bytes, Bytes base) {
  if (bytes <= base || base == 0) return "";
  return fmt::format(", {:.2f} % over it", 100.0 * static_cast<double>(bytes - base) / static_cast<double>(base));
}

}  // namespace

Json PackJson(const PackReport& report) {
  Json json = NewResult("pack");
  json["instance"] = report.path;
  json["items"] = report.instance.items.size();
  json["fits"] = report.fits();
  json["height_bytes"] = report.packing.height;
  json["capacity_bytes"] = report.capacity;
  json["lower_bound_bytes"] = report.packing.lower_bound;
  json["evaluations"] = report.packing.evaluations;
  json["stopped_early"] = report.packing.stopped_early;
  Json offsets = Json::array();
  for (std::size_t i = 0; i < report.instance.items.size(); ++i) {
    offsets.push_back({{"id", report.instance.ids[i]}, {"offset", report.packing.offsets[i]}});
  }
  json["offsets"] = std::move(offsets);
  return json;
}

std::string PackText(const PackReport& report, const Terminal& terminal) {
  const alloc::Packing& packing = report.packing;
  Table table({{.title = ""}, {.title = "", .shrinks = true}});
  table.Add({"items", WithSeparators(static_cast<std::int64_t>(report.instance.items.size()))});
  table.Add({"live peak", Exactly(packing.lower_bound)});
  table.Add({"height", Exactly(packing.height) + Over(packing.height, packing.lower_bound)});
  table.Add({"capacity", Exactly(report.capacity)});
  table.Add(
      {"fits", report.fits() ? "yes" : fmt::format("no, {} too high", Exactly(packing.height - report.capacity))});
  if (packing.stopped_early) table.Add({"stopped early", "by --time-limit"});
  return Paint(Style::kBold, Shorten(Printable(report.path), terminal.width, terminal.unicode), terminal) + "\n\n" +
         table.Render(terminal);
}

}  // namespace ebbtide::report
