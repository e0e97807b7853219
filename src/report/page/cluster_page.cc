// The data of the page: every policy's figures, and the runs on the first GPUs.
#include "report/page/cluster_page.h"

#include <fmt/format.h>

#include <cmath>

#include "report/about.h"
#include "report/json/cluster.h"
#include "report/page/page.h"
#include "report/page/texts.h"
#include "report/text/cluster.h"

namespace ebbtide::report {
namespace {

constexpr std::size_t kGpusShown = 64;
constexpr std::size_t kRunsShown = 20'000;

Json DataOf(const jobs::ClusterResult& result) {
  Json data = ClusterJson(result);
  data["title"] = fmt::format("{}{}{}", result.path, result.trace.empty() ? "" : ", ", result.trace);
  About about;
  about.Add("jobs", std::to_string(result.workload.jobs.size()));
  about.Add("GPUs",
            fmt::format("{} in {} nodes: {}", result.hardware.gpus(), result.hardware.nodes.size(), result.nodes));
  const jobs::PlacementOutcome* ours = result.Find("ebbtide");
  const jobs::PlacementOutcome* exclusive = result.Find("exclusive");
  if (ours != nullptr && !result.fill) {
    about.verdict = ours->outcome.oom == 0 ? Verdict::kGood : Verdict::kBad;
    about.says = fmt::format("ebbtide: {}, {} out of memory", FormatSeconds(ours->outcome.makespan), ours->outcome.oom);
    if (exclusive != nullptr && exclusive->outcome.makespan > 0) {
      about.says +=
          fmt::format("; {:+.1f} % beside exclusive", 100 * (ours->outcome.makespan / exclusive->outcome.makespan - 1));
    }
  }
  data["about"] = AboutJson(about);
  const double first = result.workload.jobs.empty() ? 0 : result.workload.jobs.front().arrival;
  const auto gpus = std::min(kGpusShown, static_cast<std::size_t>(result.hardware.gpus()));
  data["gpus_shown"] = gpus;
  data["names"] = Json::array();
  for (const cluster::Kind& kind : result.workload.kinds) data["names"].push_back(kind.name);
  data["of_exclusive"] = exclusive == nullptr || result.fill ? Json() : Json(exclusive->outcome.makespan);
  for (std::size_t i = 0; i < result.policies.size(); ++i) {
    // [GPU, begin, end, job's name, kind, out of memory]
    Json runs = Json::array();
    for (const cluster::Run& run : result.policies[i].outcome.runs) {
      const cluster::Job& job = result.workload.jobs[run.job];
      for (const std::size_t gpu : run.gpus) {
        if (gpu >= gpus || runs.size() >= kRunsShown) continue;
        runs.push_back({gpu, run.begin - first, run.end - first, job.name, job.kind, run.oom});
      }
    }
    data["policies"][i]["cut"] = runs.size() >= kRunsShown;
    data["policies"][i]["runs"] = std::move(runs);
  }
  return data;
}

}  // namespace

std::string ClusterPage(const jobs::ClusterResult& result) {
  return FillPage({.body = kClusterHtml,
                   .css = std::string(kPageCss) + kClusterCss,
                   .js = std::string(kWordsJs) + kReachJs + kClusterJs,
                   .remark = "Times are predicted by its simulator",
                   .title = "Cluster " + result.nodes,
                   .data = DataOf(result)});
}

}  // namespace ebbtide::report
