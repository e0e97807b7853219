// Each page lies within the whole as text, and the chosen one is shown in a frame.
#include "report/page/choice_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "report/estimate_timeline.h"
#include "report/page/memory_page.h"
#include "report/page/page.h"

namespace ebbtide::report {
namespace {

constexpr std::size_t kMostPages = 16;

struct Choice {
  std::string label;
  std::string page;
};

// `asks` is what stands before the choice, `remark` behind it. The first is shown first.
std::string ChoicePage(const std::string& title, const std::string& asks, const std::vector<Choice>& choices,
                       const std::string& remark) {
  std::string options, frames;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string label = EscapeHtml(choices[i].label);
    options += fmt::format("<option value=\"{}\">{}</option>", i, label);
    frames += fmt::format("<iframe title=\"{}\" id=\"page{}\"{} srcdoc=\"{}\"></iframe>\n", label, i,
                          i == 0 ? "" : " hidden", EscapeHtml(choices[i].page));
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{0}</title>\n"
      "<style>body{{margin:0;font:14px sans-serif}}header{{padding:8px "
      "12px}}iframe{{border:0;width:100%;height:calc(100vh "
      "- 44px)}}iframe[hidden]{{display:none}}</style></head>\n<body><header><label>{1} <select "
      "id=\"choice\">{2}</select></label>{3}</header>\n{4}<script>\nconst choice = document.getElementById('choice');\n"
      "choice.addEventListener('change', () => document.querySelectorAll('iframe').forEach(f => f.hidden = f.id !== "
      "'page' + choice.value));\n</script></body></html>\n",
      EscapeHtml(title), asks, options, EscapeHtml(remark), frames);
}

}  // namespace

std::string DryrunPage(const Dryrun& run) {
  const std::vector<DryrunRank> ranks = run.ranks();
  if (ranks.size() < 2) return MemoryPage(DryrunTimeline(run));
  std::vector<Choice> choices;
  std::string left_out;
  for (const DryrunRank& rank : ranks) {
    if (!rank.process->timeline || choices.size() == kMostPages) {
      left_out += fmt::format("{}{}", left_out.empty() ? "" : ", ", rank.rank);
      continue;
    }
    choices.push_back({fmt::format("rank {}, GPU {}: {} of {}", rank.rank, rank.gpu, FormatBytes(rank.total),
                                   FormatBytes(run.capacity)),
                       MemoryPage(RankTimeline(run, rank))});
  }
  return ChoicePage(fmt::format("ebbtide dryrun, {} ranks", ranks.size()), "Rank, worst first:", choices,
                    left_out.empty() ? "" : " without a page: ranks " + left_out);
}

std::string EstimatePage(const jobs::EstimateResult& prediction) {
  if (prediction.stages.empty()) return MemoryPage(EstimateTimeline(prediction));
  std::vector<std::size_t> order;
  for (std::size_t stage = 0; stage < prediction.stages.size(); ++stage) order.push_back(stage);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t stage) { return prediction.stages[stage].estimate.total(); });
  std::vector<Choice> choices;
  std::string left_out;
  for (const std::size_t stage : order) {
    if (choices.size() == kMostPages) {
      left_out += fmt::format("{}{}", left_out.empty() ? "" : ", ", stage);
      continue;
    }
    const estimate::Estimate& estimate = prediction.stages[stage].estimate;
    choices.push_back(
        {fmt::format("stage {}: {} of {}", stage, FormatBytes(estimate.total()), FormatBytes(estimate.capacity)),
         MemoryPage(EstimateTimeline(prediction.stages[stage]))});
  }
  return ChoicePage(fmt::format("{}, {} stages", prediction.model, order.size()), "Stage, worst first:", choices,
                    left_out.empty() ? "" : " without a page: stages " + left_out);
}

}  // namespace ebbtide::report
