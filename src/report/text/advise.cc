// The proposals of `ebbtide advise`, one below the other.
#include "report/text/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

std::string Lines(std::string_view mark, std::string_view text, const Terminal& terminal) {
  std::string out;
  bool first = true;
  for (const std::string& line : Wrap(Printable(text), std::max(20, terminal.width - 6))) {
    out += (std::exchange(first, false) ? PadRight(mark, 6) : std::string(6, ' ')) + line + "\n";
  }
  return out;
}

}  // namespace

std::string AdviseText(const jobs::AdviseResult& result, const Terminal& terminal) {
  std::string out = Paint(Style::kBold, Printable(result.model), terminal) + "  on " + Printable(result.gpu) + "\n\n";
  out += fmt::format("as it is: {}, {} to be safe, of {}\n", FormatBytes(result.plain.total),
                     FormatBytes(result.plain.safe), FormatBytes(result.capacity));
  if (result.fits_already()) return out + "It fits already.\n";
  out += result.found() ? "\nwhat makes it fit, the least time lost first\n"
                        : "\nNothing tried makes it fit; what comes closest\n";
  int number = 0;
  for (const jobs::Proposal& proposal : result.proposals) {
    out += "\n" + Lines(fmt::format("{}.", ++number),
                        fmt::format("{}{}, {} to be safe, {} less; {:.2f} times as long",
                                    proposal.fits ? "" : "does not fit: ", FormatBytes(proposal.total),
                                    FormatBytes(proposal.safe), FormatBytes(proposal.saved), proposal.time_ratio),
                        terminal);
    for (const std::string& measure : proposal.measures) out += Lines("    -", measure, terminal);
  }
  for (const std::string& note : result.notes) out += "\n" + Lines("note", note, terminal);
  return out;
}

}  // namespace ebbtide::report
