// One page per rank lies within the page as text, and the chosen one is shown in a frame.
#include "report/page/rank_page.h"

#include <fmt/format.h>

#include "report/page/memory_page.h"

namespace ebbtide::report {
namespace {

constexpr std::size_t kMostPages = 16;

// As text between quotes in HTML.
std::string Escaped(const std::string& text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace

std::string DryrunPage(const Dryrun& run) {
  const std::vector<DryrunRank> ranks = run.ranks();
  if (ranks.size() < 2) return MemoryPage(DryrunTimeline(run));
  std::string options, frames, left_out;
  std::size_t shown = 0;
  for (const DryrunRank& rank : ranks) {
    if (!rank.process->timeline || shown == kMostPages) {
      left_out += fmt::format("{}{}", left_out.empty() ? "" : ", ", rank.rank);
      continue;
    }
    options += fmt::format("<option value=\"{}\">rank {}, GPU {}: {} of {}</option>", shown, rank.rank, rank.gpu,
                           FormatBytes(rank.total), FormatBytes(run.capacity));
    frames += fmt::format("<iframe title=\"rank {}\" id=\"rank{}\"{} srcdoc=\"{}\"></iframe>\n", rank.rank, shown,
                          shown == 0 ? "" : " hidden", Escaped(MemoryPage(RankTimeline(run, rank))));
    ++shown;
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>ebbtide dryrun, {0} ranks</title>\n"
      "<style>body{{margin:0;font:14px sans-serif}}header{{padding:8px "
      "12px}}iframe{{border:0;width:100%;height:calc(100vh "
      "- 44px)}}iframe[hidden]{{display:none}}</style></head>\n<body><header><label>Rank, worst first: <select "
      "id=\"choice\">{1}</select></label>{2}</header>\n{3}<script>\nconst choice = document.getElementById('choice');\n"
      "choice.addEventListener('change', () => document.querySelectorAll('iframe').forEach(f => f.hidden = f.id !== "
      "'rank' + choice.value));\n</script></body></html>\n",
      ranks.size(), options, left_out.empty() ? "" : " without a page: ranks " + left_out, frames);
}

}  // namespace ebbtide::report
