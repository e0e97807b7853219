// The table of `ebbtide fit`.
#include "report/text/fit.h"

#include <fmt/format.h>

#include "report/text/table.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

std::string BatchText(std::int64_t batch) { return batch == 0 ? "none" : WithSeparators(batch); }

// "the smallest GPU on which it is safe is rtx3090 (it may fit rtx3060)".
std::string SmallestText(const jobs::FitResult& fit) {
  const jobs::FitOnGpu* const smallest = fit.smallest();
  const jobs::FitOnGpu* const safe = fit.smallest_safe();
  if (smallest == nullptr) return "fits none of these";
  if (safe == nullptr) return fmt::format("safe on none of these; it may fit {}", Printable(smallest->gpu));
  const std::string may_fit = safe == smallest ? "" : fmt::format(" (it may fit {})", Printable(smallest->gpu));
  return fmt::format("the smallest GPU on which it is safe is {}{}", Printable(safe->gpu), may_fit);
}

}  // namespace

std::string FitText(const jobs::FitResult& fit, const Terminal& terminal) {
  std::string out =
      Paint(Style::kBold, Shorten(Printable(fit.model), terminal.width, terminal.unicode), terminal) + "\n\n";
  if (fit.batch) {
    out += fmt::format("batch size {}: {}\n\n", WithSeparators(*fit.batch), SmallestText(fit));
  }
  std::vector<Column> columns = {{.title = "gpu"},
                                 {.title = "memory", .align = Align::kRight},
                                 {.title = "safe batch", .align = Align::kRight},
                                 {.title = "limit", .align = Align::kRight}};
  if (fit.terms) {
    for (const char* title : {"all kept", "with a plan", "slowdown", "limited by"}) {
      columns.push_back({.title = title, .align = Align::kRight});
    }
  }
  Table table(columns);
  for (const jobs::FitOnGpu& gpu : fit.gpus) {
    std::vector<std::string> row = {gpu.gpu, FormatBytes(gpu.memory), BatchText(gpu.max_batch_safe),
                                    BatchText(gpu.max_batch)};
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
  out += fmt::format(
      "\nsafe batch: meant to fit in {:.0f} of 100 cases; limit: the largest that fits if all goes as estimated\n",
      100 * fit.safe_probability);
  if (fit.terms) {
    out += fmt::format("with a plan: by {}, an iteration at most {}x as long as with memory for everything\n",
                       fit.terms->policy, fit.terms->slowdown);
  }
  return out;
}

}  // namespace ebbtide::report
