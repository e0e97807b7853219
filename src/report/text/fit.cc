// The table of `ebbtide fit`.
#include "report/text/fit.h"

#include <fmt/format.h>

#include "report/text/table.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

std::string BatchText(std::int64_t batch) { return batch == 0 ? "none" : WithSeparators(batch); }

}  // namespace

std::string FitText(const jobs::FitResult& fit, const Terminal& terminal) {
  std::string out =
      Paint(Style::kBold, Shorten(Printable(fit.model), terminal.width, terminal.unicode), terminal) + "\n\n";
  if (fit.batch) {
    const jobs::FitOnGpu* smallest = fit.smallest();
    out += fmt::format(
        "batch size {}: {}\n\n", WithSeparators(*fit.batch),
        smallest == nullptr ? "fits none of these" : "the smallest GPU that takes it is " + Printable(smallest->gpu));
  }
  std::vector<Column> columns = {{.title = "gpu", .shrinks = true},
                                 {.title = "memory", .align = Align::kRight},
                                 {.title = "largest batch", .align = Align::kRight}};
  if (fit.terms) {
    for (const char* title : {"all kept", "with a plan", "slowdown", "limited by"}) {
      columns.push_back({.title = title, .align = Align::kRight});
    }
  }
  Table table(columns);
  for (const jobs::FitOnGpu& gpu : fit.gpus) {
    std::vector<std::string> row = {gpu.gpu, FormatBytes(gpu.memory), BatchText(gpu.max_batch)};
    if (gpu.with_plan) {
      const jobs::FitWithPlan& with = *gpu.with_plan;
      const char* limited = with.limited_by();
      row.insert(row.end(),
                 {BatchText(with.max_batch_kept), BatchText(with.max_batch),
                  with.max_batch > 0 ? fmt::format("{:.2f}x", with.slowdown()) : "", limited ? limited : ""});
    }
    table.Add(std::move(row));
  }
  out += table.Render(terminal);
  if (fit.terms) {
    out += fmt::format("\nwith a plan: by {}, an iteration at most {}x as long as with memory for everything\n",
                       fit.terms->policy, fit.terms->slowdown);
  }
  return out;
}

}  // namespace ebbtide::report
