// A mix as JSON.
#include "report/json/share.h"

#include <algorithm>

namespace ebbtide::report {
namespace {

Json GroupsJson(const share::Job& job) {
  Json out = Json::array();
  for (const share::NodeGroup& group : job.cut.groups) {
    out.push_back({{"begin", group.begin.value},
                   {"end", group.end.value},
                   {"time_ns", group.time},
                   {"peak_bytes", group.peak},
                   {"after_bytes", group.after},
                   {"crossing_bytes", group.crossing}});
  }
  return out;
}

Json JobJson(const jobs::ShareResult& result, std::size_t i) {
  const share::Mix& mix = result.mix;
  const share::Job& job = mix.jobs[i];
  Json out = {{"model", job.training->model}, {"batch", job.training->batch}};
  out["iterations_per_second"] = mix.fits ? Json(mix.together.jobs[i].iterations_per_second) : Json();
  out["waiting"] = mix.fits ? Json(mix.together.jobs[i].waited) : Json();
  out["solo_time_ns"] = job.alone;
  out["weight"] = job.training->weight;
  out["priority"] = job.training->priority;
  out["state_bytes"] = job.placement.state;
  out["live_peak_bytes"] = job.placement.live_peak;
  out["height_bytes"] = job.placement.height;
  out["lane"] = mix.fits ? Json(mix.lanes[i]) : Json();
  out["planned"] = job.planned();
  out["planned_time_ns"] = job.planned() ? Json(job.planned_time) : Json();
  if (result.common) out["solo_batch"] = result.common->solo[i];
  out["groups"] = GroupsJson(job);
  return out;
}

}  // namespace

Json ShareJson(const jobs::ShareResult& result) {
  const share::Mix& mix = result.mix;
  Json out = NewResult("share");
  out["fits"] = mix.fits;
  out["reason"] = mix.fits ? Json() : Json(mix.reason);
  out["gpu"] = result.gpu;
  out["capacity_bytes"] = mix.capacity;
  out["peak_bytes"] = mix.fits ? Json(mix.peak) : Json();
  out["time_ns"] = mix.fits ? Json(mix.together.round) : Json();
  out["exclusive_time_ns"] = mix.exclusive;
  out["speedup"] = mix.fits ? Json(mix.speedup()) : Json();
  out["gpu_busy"] = mix.fits ? Json(mix.together.busy) : Json();
  out["group_runs"] = mix.together.group_runs;
  out["overlapped_group_runs"] = mix.together.overlapped;
  out["lanes"] = Json::array();
  for (const Bytes size : mix.lane_sizes) out["lanes"].push_back({{"size_bytes", size}});
  if (result.common) {
    const bool found = result.common->found();
    out["batch_share"] = found ? Json(result.common->share) : Json();
    out["batch_share_without_plans"] = found ? Json(result.common->unplanned_share) : Json();
    out["batch_share_ceiling"] = found ? Json(result.common->ceiling) : Json();
  }
  out["jobs"] = Json::array();
  for (std::size_t i = 0; i < mix.jobs.size(); ++i) out["jobs"].push_back(JobJson(result, i));
  if (!result.compared.empty()) {
    out["baselines"] = Json::array();
    for (const share::BaselineResult& baseline : result.compared) {
      Json row = {{"name", baseline.name}, {"fits", baseline.fits}};
      row["time_ns"] = baseline.fits ? Json(baseline.together.round) : Json();
      row["memory_bytes"] = baseline.memory;
      row["note"] = baseline.note;
      out["baselines"].push_back(std::move(row));
    }
  }
  return out;
}

}  // namespace ebbtide::report
