// The data of the page: samples of memory by job, and every group of the last rounds.
#include "report/page/share_page.h"

#include <fmt/format.h>

#include <cmath>

#include "report/about.h"
#include "report/json/share.h"
#include "report/page/page.h"
#include "report/page/texts.h"
#include "report/share_samples.h"

namespace ebbtide::report {
namespace {

constexpr std::size_t kSamples = 1600;

// The phase a group is mostly in.
int PhaseOf(const share::Job& job, const share::NodeGroup& group) {
  Nanos by_phase[3] = {0, 0, 0};
  for (const sim::StepId step : Ids(group.begin, group.end)) {
    const OpId op = job.placement.schedule.steps[step];
    const auto phase = static_cast<std::size_t>(job.training->graph.op(op).phase);
    by_phase[phase] += job.training->workload.time[op] + 1;
  }
  int best = 0;
  for (int phase = 1; phase < 3; ++phase) {
    if (by_phase[phase] > by_phase[best]) best = phase;
  }
  return best;
}

Json DataOf(const jobs::ShareResult& result) {
  Json data = ShareJson(result);
  const share::Mix& mix = result.mix;
  std::vector<std::string> names;
  for (const share::Job& job : mix.jobs)
    names.push_back(fmt::format("{}:{}", job.training->model, job.training->batch));
  data["title"] = fmt::format("{}", fmt::join(names, " + "));
  About about;
  for (const share::Job& job : mix.jobs) {
    const auto optimizer = job.training->graph.meta.find("optimizer");
    about.Add("training", fmt::format("{}, batch {}, {}{}{}", job.training->model, job.training->batch,
                                      DtypeText(job.training->graph),
                                      optimizer == job.training->graph.meta.end() ? "" : ", optimizer ",
                                      optimizer == job.training->graph.meta.end() ? "" : optimizer->second));
  }
  about.Add("GPU", fmt::format("{}, {}", result.gpu, FormatBytes(mix.capacity)));
  about.verdict = mix.fits ? Verdict::kGood : Verdict::kBad;
  about.says = mix.fits ? fmt::format("Fits: the peak is {}", FormatBytes(mix.peak)) : "Does not fit";
  data["about"] = AboutJson(about);
  for (std::size_t i = 0; i < mix.jobs.size(); ++i) {
    for (std::size_t g = 0; g < mix.jobs[i].cut.groups.size(); ++g) {
      data["jobs"][i]["groups"][g]["phase"] = PhaseOf(mix.jobs[i], mix.jobs[i].cut.groups[g]);
    }
  }
  if (!mix.fits) return data;
  const ShareSamples samples = SampleMemory(mix, kSamples);
  data["span_ns"] = std::llround(samples.end - samples.begin);
  data["memory"] = {{"live", samples.live}, {"height", samples.height}};
  // [job, group, begin, end]
  data["runs"] = Json::array();
  for (const share::GroupRun& run : mix.together.runs) {
    if (run.end <= samples.begin) continue;
    data["runs"].push_back(
        {run.job, run.group, std::llround(run.begin - samples.begin), std::llround(run.end - samples.begin)});
  }
  return data;
}

}  // namespace

std::string SharePage(const jobs::ShareResult& result) {
  return FillPage({.body = kShareHtml,
                   .css = std::string(kPageCss) + kShareCss,
                   .js = std::string(kWordsJs) + kReachJs + kShareJs,
                   .remark = "Times are predicted by its simulator",
                   .title = "Sharing " + result.gpu,
                   .data = DataOf(result)});
}

}  // namespace ebbtide::report
