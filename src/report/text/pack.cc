// Shows how high a packing is and what bounds it.
#include "report/text/pack.h"

#include <fmt/format.h>

#include "report/text/table.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

std::string Exactly(Bytes bytes) { return fmt::format("{} ({})", FormatBytes(bytes), WithSeparators(bytes)); }

std::string Over(Bytes bytes, Bytes base) {
  if (bytes <= base || base == 0) return "";
  return fmt::format(", {:.2f} % over it", 100.0 * static_cast<double>(bytes - base) / static_cast<double>(base));
}

}  // namespace

std::string PackText(const jobs::PackResult& result, const Terminal& terminal) {
  const pack::Packing& packing = result.packing;
  Table table({{.title = ""}, {.title = "", .wraps = true}});
  table.Add({"items", WithSeparators(static_cast<std::int64_t>(result.instance.items.size()))});
  table.Add({"live peak", Exactly(packing.lower_bound)});
  table.Add({"height", Exactly(packing.height) + Over(packing.height, packing.lower_bound)});
  table.Add({"capacity", Exactly(result.capacity)});
  table.Add(
      {"fits", result.fits() ? "yes" : fmt::format("no, {} too high", Exactly(packing.height - result.capacity))});
  if (packing.stopped_early) table.Add({"stopped early", "by --time-limit"});
  return Paint(Style::kBold, Shorten(Printable(result.path), terminal.width, terminal.unicode), terminal) + "\n\n" +
         table.Render(terminal);
}

}  // namespace ebbtide::report
