// The tables of `ebbtide explain`.
#include "report/text/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/units.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

using jobs::ExplainResult;

constexpr int kLabel = 16;

std::string Figure(std::string_view label, std::string_view text, const Terminal& terminal) {
  std::string out;
  for (const std::string& line : Wrap(Printable(text), std::max(20, terminal.width - kLabel))) {
    out += PadRight(out.empty() ? label : "", kLabel) + line + "\n";
  }
  return out;
}

std::string Share(Bytes part, Bytes whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "";
}

std::string Verdict(const ExplainResult& result, const Terminal& terminal) {
  if (!result.out_of_memory) {
    return Paint(Style::kBold, "not out of memory: the moment at which most was allocated", terminal) + "\n\n";
  }
  std::string text = fmt::format("OUT OF MEMORY: {} asked for", FormatBytes(result.requested));
  if (result.available) {
    text += fmt::format(", {} of {} to have were free", FormatBytes(*result.available - result.reserved),
                        FormatBytes(*result.available));
  }
  std::string out = Paint(Style::kRed, text, terminal) + "\n";
  if (!result.failed_line.empty()) out += "  at " + Printable(result.failed_line) + "\n";
  return out + "\n";
}

std::string Figures(const ExplainResult& result, const Terminal& terminal) {
  std::string out = Figure("allocated", FormatBytes(result.allocated), terminal);
  out += Figure("reserved", FormatBytes(result.reserved), terminal);
  out += Figure("fragmentation", FormatBytes(result.fragmentation) + " free in segments that are in use", terminal);
  if (result.cached > 0) {
    out += Figure("cached", FormatBytes(result.cached) + " in segments that hold nothing", terminal);
  }
  if (result.rounding > 0) out += Figure("rounding", FormatBytes(result.rounding), terminal);
  if (result.outside_pytorch) {
    out +=
        Figure("beside PyTorch", FormatBytes(*result.outside_pytorch) + ", the CUDA context and libraries", terminal);
  }
  if (result.other_processes) out += Figure("other processes", FormatBytes(*result.other_processes), terminal);
  if (result.iterations >= 3) {
    out += Figure(
        "leak",
        result.leak_per_iteration > 0
            ? fmt::format("{} per iteration, of {} compared", FormatBytes(result.leak_per_iteration), result.iterations)
            : fmt::format("none: {} iterations left nothing behind", result.iterations),
        terminal);
  }
  return out;
}

std::string Held(const ExplainResult& result, const Terminal& terminal) {
  if (result.held.empty()) return "";
  std::vector<std::pair<std::string, Bytes>> rows(result.held.begin(), result.held.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table({{.title = "held"}, {.title = "bytes", .align = Align::kRight}, {.title = "", .align = Align::kRight}});
  for (const auto& [category, bytes] : rows) {
    table.Add({category, FormatBytes(bytes), Share(bytes, result.allocated)});
  }
  return "\n" + table.Render(terminal);
}

std::string Largest(const ExplainResult& result, const Terminal& terminal) {
  if (!result.has_stacks) return "";
  Table table({{.title = "by line", .shrinks = true},
               {.title = "in", .shrinks = true},
               {.title = "category"},
               {.title = "blocks", .align = Align::kRight},
               {.title = "bytes", .align = Align::kRight}});
  for (const jobs::Holder& holder : result.largest) {
    table.Add({holder.line.empty() ? "(no Python frame)" : holder.line, holder.function, holder.category,
               WithSeparators(holder.blocks), FormatBytes(holder.bytes)});
  }
  return "\n" + table.Render(terminal);
}

std::string List(std::string_view title, const std::vector<std::string>& texts, const Terminal& terminal) {
  if (texts.empty()) return "";
  std::string out = "\n" + Paint(Style::kBold, title, terminal) + "\n";
  for (const std::string& text : texts) {
    bool first = true;
    for (const std::string& line : Wrap(Printable(text), std::max(20, terminal.width - 2))) {
      out += (std::exchange(first, false) ? "- " : "  ") + line + "\n";
    }
  }
  return out;
}

}  // namespace

std::string ExplainText(const ExplainResult& result, const Terminal& terminal) {
  return Paint(Style::kBold, Shorten(Printable(result.path), terminal.width, terminal.unicode), terminal) + "\n\n" +
         Verdict(result, terminal) + Figures(result, terminal) + Held(result, terminal) + Largest(result, terminal) +
         List("what would have fitted", result.remedies, terminal) + List("what this rests on", result.notes, terminal);
}

}  // namespace ebbtide::report
