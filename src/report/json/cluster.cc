// Placement policies on a trace, as JSON.
#include "report/json/cluster.h"

namespace ebbtide::report {
namespace {

Json KindJson(const jobs::ClusterResult& result, const cluster::Kind& kind) {
  Json out = {{"name", kind.name}, {"gpus", kind.gpus}};
  if (kind.by_share()) {
    out["gpu_milli"] = kind.gpu_milli;
    return out;
  }
  out["on"] = Json::array();
  for (std::size_t type = 0; type < kind.on.size(); ++type) {
    const cluster::OnGpu& on = kind.on[type];
    out["on"].push_back({{"gpu", result.hardware.types[type].name},
                         {"memory_bytes", on.memory},
                         {"estimate_bytes", on.estimate},
                         {"safe_bytes", on.reserve},
                         {"kernels", on.kernels},
                         {"gpu_share", on.gpu_share}});
  }
  return out;
}

}  // namespace

Json ClusterJson(const jobs::ClusterResult& result) {
  Json out = NewResult("cluster");
  out["trace"] = result.path;
  out["form"] = result.form;
  out["name"] = result.trace.empty() ? Json() : Json(result.trace);
  out["nodes"] = result.hardware.nodes.size();
  out["gpus"] = result.hardware.gpus();
  out["jobs"] = result.workload.jobs.size();
  out["fill"] = result.fill ? Json(*result.fill) : Json();
  out["policies"] = Json::array();
  for (const jobs::PlacementOutcome& policy : result.policies) {
    const cluster::Outcome& of = policy.outcome;
    Json row = {{"policy", policy.name}};
    row["makespan_s"] = of.makespan;
    row["oom"] = of.oom;
    row["mean_wait_s"] = of.mean_wait;
    row["utilisation"] = of.utilisation;
    row["mean_completion_s"] = of.mean_completion;
    row["allocation"] = of.allocation;
    row["ended"] = of.ended;
    row["refused"] = of.refused;
    row["waiting"] = of.waiting;
    row["most_memory_bytes"] = of.most_memory;
    row["most_together"] = of.most_together;
    row["rule"] = policy.rule;
    out["policies"].push_back(std::move(row));
  }
  if (result.form != "openb") {
    out["kinds"] = Json::array();
    for (const cluster::Kind& kind : result.workload.kinds) out["kinds"].push_back(KindJson(result, kind));
  }
  out["notes"] = result.notes;
  return out;
}

}  // namespace ebbtide::report
