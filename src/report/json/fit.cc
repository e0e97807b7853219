// `ebbtide fit` as JSON.
#include "report/json/fit.h"

namespace ebbtide::report {
namespace {

Json PerSample(Nanos time, std::int64_t samples) { return samples > 0 ? Json(time / samples) : Json(); }

Json WithPlanJson(const jobs::FitWithPlan& with, const jobs::FitTerms& terms) {
  const bool found = with.max_batch > 0;
  Json out = {{"budget_bytes", with.budget}, {"max_batch_kept", with.max_batch_kept}};
  out["peak_bytes"] = found ? Json(with.peak) : Json();
  out["time_ns"] = found ? Json(with.time) : Json();
  out["plain_time_ns"] = found ? Json(with.plain_time) : Json();
  out["slowdown"] = found ? Json(with.slowdown()) : Json();
  out["time_per_sample_ns"] = PerSample(with.time, with.max_batch * terms.passes);
  out["plain_time_per_sample_ns"] = PerSample(with.plain_time, with.max_batch * terms.passes);
  out["kept_time_per_sample_ns"] = PerSample(with.kept_time, with.max_batch_kept * terms.passes);
  const char* limited = with.limited_by();
  out["limited_by"] = limited ? Json(limited) : Json();
  out["no_plan_from"] = with.none_from > 0 ? Json(with.none_from) : Json();
  return out;
}

Json GpusJson(const jobs::FitResult& fit, const std::vector<jobs::FitOnGpu>& gpus) {
  Json out = Json::array();
  for (const jobs::FitOnGpu& gpu : gpus) {
    Json row = {{"gpu", gpu.gpu},
                {"memory_bytes", gpu.memory},
                {"max_batch_safe", gpu.max_batch_safe},
                {"max_batch", gpu.max_batch}};
    row["max_batch_with_plan"] = gpu.with_plan ? Json(gpu.with_plan->max_batch) : Json();
    row["with_plan"] = gpu.with_plan ? WithPlanJson(*gpu.with_plan, *fit.terms) : Json();
    row["fits"] = fit.batch ? Json(gpu.fits_batch) : Json();
    row["safe_fits"] = fit.batch ? Json(gpu.is_batch_safe) : Json();
    row["timed_batch"] = gpu.timed_batch > 0 ? Json(gpu.timed_batch) : Json();
    row["time_ns"] = gpu.timed_batch > 0 ? Json(gpu.time) : Json();
    row["samples_per_second"] = gpu.timed_batch > 0 ? Json(gpu.samples_per_second) : Json();
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace

Json FitJson(const jobs::FitResult& fit) {
  Json result = NewResult("fit");
  result["model"] = fit.model;
  result["meta"] = fit.meta;
  result["batch_size"] = nullptr;
  if (fit.batch) result["batch_size"] = *fit.batch;
  result["smallest_gpu"] = nullptr;
  if (const jobs::FitOnGpu* smallest = fit.smallest()) result["smallest_gpu"] = smallest->gpu;
  result["smallest_gpu_safe"] = nullptr;
  if (const jobs::FitOnGpu* smallest = fit.smallest_safe()) result["smallest_gpu_safe"] = smallest->gpu;
  result["safe_probability"] = fit.safe_probability;
  result["policy"] = fit.terms ? Json(fit.terms->policy) : Json();
  result["slowdown_limit"] = fit.terms ? Json(fit.terms->slowdown) : Json();
  result["gpus"] = GpusJson(fit, fit.gpus);
  result["layouts"] = Json::array();
  for (const jobs::FitLayout& layout : fit.layouts) {
    result["layouts"].push_back({{"flags", layout.flags},
                                 {"refused", layout.refused.empty() ? Json() : Json(layout.refused)},
                                 {"gpus", GpusJson(fit, layout.gpus)}});
  }
  return result;
}

}  // namespace ebbtide::report
