#include "report/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/table.h"
#include "report/text.h"

namespace ebbtide::report {
namespace {

// What keeps larger batches out; null: nothing that was tried.
const char* LimitedBy(plan::Obstacle obstacle) {
  switch (obstacle) {
    case plan::Obstacle::kFloor:
    case plan::Obstacle::kMemory: return "memory";
    case plan::Obstacle::kLeastTime:
    case plan::Obstacle::kTime: return "time";
    case plan::Obstacle::kNone: break;
  }
  return nullptr;
}

double Slowdown(const FitWithPlan& with) {
  return with.plain_time > 0 ? static_cast<double>(with.time) / static_cast<double>(with.plain_time) : 1;
}

Json PerSample(Nanos time, std::int64_t samples) { return samples > 0 ? Json(time / samples) : Json(); }

Json WithPlanJson(const FitWithPlan& with, const FitTerms& terms) {
  const bool found = with.max_batch > 0;
  Json out = {{"budget_bytes", with.budget}, {"max_batch_kept", with.max_batch_kept}};
  out["peak_bytes"] = found ? Json(with.peak) : Json();
  out["time_ns"] = found ? Json(with.time) : Json();
  out["plain_time_ns"] = found ? Json(with.plain_time) : Json();
  out["slowdown"] = found ? Json(Slowdown(with)) : Json();
  out["time_per_sample_ns"] = PerSample(with.time, with.max_batch * terms.passes);
  out["plain_time_per_sample_ns"] = PerSample(with.plain_time, with.max_batch * terms.passes);
  out["kept_time_per_sample_ns"] = PerSample(with.kept_time, with.max_batch_kept * terms.passes);
  const char* limited = LimitedBy(with.obstacle);
  out["limited_by"] = limited ? Json(limited) : Json();
  out["no_plan_from"] = with.none_from > 0 ? Json(with.none_from) : Json();
  return out;
}

std::string BatchText(std::int64_t batch) { return batch == 0 ? "none" : WithSeparators(batch); }

}  // namespace

const FitOnGpu* Fit::smallest() const {
  if (!batch) return nullptr;
  const auto found = std::find_if(gpus.begin(), gpus.end(), [](const FitOnGpu& gpu) { return gpu.fits_batch; });
  return found == gpus.end() ? nullptr : &*found;
}

Json FitJson(const Fit& fit) {
  Json result = NewResult("fit");
  result["model"] = fit.model;
  result["batch_size"] = nullptr;
  if (fit.batch) result["batch_size"] = *fit.batch;
  result["smallest_gpu"] = nullptr;
  if (const FitOnGpu* smallest = fit.smallest()) result["smallest_gpu"] = smallest->gpu;
  result["policy"] = fit.terms ? Json(fit.terms->policy) : Json();
  result["slowdown_limit"] = fit.terms ? Json(fit.terms->slowdown) : Json();
  result["gpus"] = Json::array();
  for (const FitOnGpu& gpu : fit.gpus) {
    Json row = {{"gpu", gpu.gpu}, {"memory_bytes", gpu.memory}, {"max_batch", gpu.max_batch}};
    row["max_batch_with_plan"] = gpu.with_plan ? Json(gpu.with_plan->max_batch) : Json();
    row["with_plan"] = gpu.with_plan ? WithPlanJson(*gpu.with_plan, *fit.terms) : Json();
    row["fits"] = nullptr;
    if (fit.batch) row["fits"] = gpu.fits_batch;
    result["gpus"].push_back(std::move(row));
  }
  return result;
}

std::string FitText(const Fit& fit, const Terminal& terminal) {
  std::string out =
      Paint(Style::kBold, Shorten(Printable(fit.model), terminal.width, terminal.unicode), terminal) + "\n\n";
  if (fit.batch) {
    const FitOnGpu* smallest = fit.smallest();
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
  for (const FitOnGpu& gpu : fit.gpus) {
    std::vector<std::string> row = {gpu.gpu, FormatBytes(gpu.memory), BatchText(gpu.max_batch)};
    if (gpu.with_plan) {
      const FitWithPlan& with = *gpu.with_plan;
      const char* limited = LimitedBy(with.obstacle);
      row.insert(row.end(), {BatchText(with.max_batch_kept), BatchText(with.max_batch),
                             with.max_batch > 0 ? fmt::format("{:.2f}x", Slowdown(with)) : "", limited ? limited : ""});
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
