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

// A table for each GPU, or where there are several, the best layout of each.
std::string LayoutsText(const jobs::FitResult& fit, const Terminal& terminal) {
  const bool is_one = fit.gpus.size() == 1;
  Table table({{.title = "gpu"},
               {.title = "layout"},
               {.title = "safe batch", .align = Align::kRight},
               {.title = "limit", .align = Align::kRight},
               {.title = "iteration", .align = Align::kRight},
               {.title = "samples/s", .align = Align::kRight}});
  std::string refused;
  for (std::size_t i = 0; i < fit.gpus.size(); ++i) {
    for (const jobs::FitLayout& layout : fit.layouts) {
      if (!layout.refused.empty()) continue;
      const jobs::FitOnGpu& gpu = layout.gpus[i];
      const bool is_best = gpu.samples_per_second == fit.gpus[i].samples_per_second && gpu.time == fit.gpus[i].time &&
                           gpu.max_batch == fit.gpus[i].max_batch;
      if (!is_one && !is_best) continue;
      table.Add({gpu.gpu, layout.flags, BatchText(gpu.max_batch_safe), BatchText(gpu.max_batch),
                 gpu.timed_batch > 0 ? FormatTime(gpu.time) : "",
                 gpu.timed_batch > 0 ? fmt::format("{:.1f}", gpu.samples_per_second) : ""});
      if (!is_one) break;
    }
  }
  for (const jobs::FitLayout& layout : fit.layouts) {
    if (!layout.refused.empty()) refused += fmt::format("{}: {}\n", layout.flags, Printable(layout.refused));
  }
  std::string out = table.Render(terminal);
  if (!refused.empty()) out += "\n" + refused;
  out += is_one ? "" : "\nof each GPU the layout that trains most samples in a second; --gpu NAME shows them all\n";
  return out + "\niteration: of the " + (fit.batch ? "batch asked for" : "safe batch") +
         " of a rank, by op times and the links of the GPU's profile (docs/ranks.md)\n";
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
  out += fit.layouts.empty() ? table.Render(terminal) : LayoutsText(fit, terminal);
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
