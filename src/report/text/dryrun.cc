// The summary of `ebbtide dryrun`.
#include "report/dryrun.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "report/text/plot.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

constexpr int kLabel = 16;
constexpr int kPlotHeight = 5;
constexpr std::size_t kLargestShown = 8;
constexpr std::size_t kFramesShown = 6;
constexpr std::size_t kNotModelledShown = 6;
constexpr std::size_t kAssumptionsShown = 8;

std::string Figure(std::string_view label, std::string_view text, const Terminal& terminal) {
  std::string out;
  for (const std::string& line : WrapNames(Printable(text), terminal.width - kLabel, terminal.unicode)) {
    out += PadRight(out.empty() ? label : "", kLabel) + line + "\n";
  }
  return out;
}

std::string Share(Bytes bytes, Bytes of) {
  return of > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(bytes) / static_cast<double>(of)) : "";
}

std::string Names(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += fmt::format("{}{}", text.empty() ? "" : ", ", number);
  return text;
}

std::string Plural(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", WithSeparators(count), noun, count == 1 ? "" : "s");
}

std::string Ooms(const Dryrun& run, const Terminal& terminal) {
  std::string out;
  for (const DryrunProcess& process : run.processes) {
    if (!process.torch) continue;
    for (const DryrunOom& oom : process.torch->oom_list) {
      std::string line = fmt::format("OUT OF MEMORY: {} asked for, {} of {} free", FormatBytes(oom.requested),
                                     FormatBytes(oom.free), FormatBytes(oom.capacity));
      if (oom.step) line += fmt::format(", in step {}", *oom.step);
      out += Paint(Style::kRed, line, terminal) + "\n";
      std::vector<std::string> own;  // torch's own frames are the same in every program
      std::copy_if(oom.stack.begin(), oom.stack.end(), std::back_inserter(own),
                   [](const std::string& frame) { return !frame.starts_with("torch/"); });
      const std::size_t skipped = own.size() > kFramesShown ? own.size() - kFramesShown : 0;
      if (skipped > 0) out += fmt::format("  ({} outer)\n", Plural(static_cast<std::int64_t>(skipped), "frame"));
      for (std::size_t i = skipped; i < own.size(); ++i) {
        out += "  " + Shorten(Printable(own[i]), terminal.width - 2, terminal.unicode) + "\n";
      }
    }
  }
  return out.empty() ? out : out + "\n";
}

std::string Figures(const Dryrun& run, const DryrunProcess& main, const Terminal& terminal) {
  std::string out;
  const auto with_place = [&](Bytes bytes, const std::string& place) {
    return FormatBytes(bytes) + (place.empty() ? "" : ", " + place);
  };
  const TorchFigures torch = main.torch.value_or(TorchFigures{});
  out += Figure("peak reserved", with_place(run.peak_reserved(), PlaceOf(torch.peak_step, torch.peak_line)), terminal);
  out += Figure("peak allocated", with_place(run.peak_allocated(), PlaceOf(torch.allocated_step, torch.allocated_line)),
                terminal);
  out += Figure("context", FormatBytes(main.context), terminal);
  if (const auto ranks = run.ranks(); !ranks.empty() && ranks[0].nccl > 0)
    out += Figure("NCCL", FormatBytes(ranks[0].nccl) + ", by rule", terminal);
  out += Figure("total",
                fmt::format("{}, {} of {} {}{}", FormatBytes(run.total()), Share(run.total(), run.capacity),
                            run.product, FormatBytes(run.capacity),
                            run.processes.size() > 1 && run.ranks().empty() ? ", all processes together" : ""),
                terminal);
  if (main.torch) {
    out += Figure("steps", WithSeparators(main.torch->steps) + (main.torch->stopped ? ", then stopped" : ""), terminal);
    if (main.torch->step_time) {
      out += Figure(
          "step time",
          fmt::format("{}, predicted: of the GPU alone{}", FormatTime(*main.torch->step_time),
                      main.torch->guessed_launches > 0 ? fmt::format("; {} timed by their size alone",
                                                                     Plural(main.torch->guessed_launches, "kernel"))
                                                       : ""),
          terminal);
    }
    if (const std::int64_t served = main.torch->retries - main.torch->ooms; served > 0) {
      out += Figure("", Plural(served, "request") + " went through only after the cache was emptied", terminal);
    }
  }
  return out;
}

std::string Warnings(const Dryrun& run, const Terminal& terminal) {
  std::string out;
  std::int64_t reads = 0, undeclared = 0, faults = 0;
  std::optional<std::int64_t> races;
  std::map<std::string, std::int64_t> not_modelled;
  for (const DryrunProcess& process : run.processes) {
    reads += process.empty_host_reads;
    undeclared += process.undeclared_launches;
    faults += process.faults_injected;
    if (process.race_count) races = races.value_or(0) + *process.race_count;
    for (const auto& [name, count] : process.not_modelled) not_modelled[name] += count;
  }
  if (reads > 0) {
    const bool assumed = std::any_of(run.processes.begin(), run.processes.end(), [](const DryrunProcess& process) {
      return process.torch && !process.torch->assumptions.empty();
    });
    out += Figure("host reads",
                  Plural(reads, "time") + " the program read a result of kernels, which do not run: " +
                      (assumed ? "it got what is assumed, below" : "it got zeros"),
                  terminal);
  }
  if (!not_modelled.empty()) {
    std::string names;
    std::size_t shown = 0;
    for (const auto& [name, count] : not_modelled) {
      if (shown++ == kNotModelledShown) break;
      names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", name, count);
    }
    if (not_modelled.size() > kNotModelledShown) names += fmt::format(", and {} more", not_modelled.size() - shown + 1);
    out += Figure("not modelled", names + ": the figures may be wrong", terminal);
  }
  if (races) {
    out += Figure(
        "races",
        fmt::format("{}, of {} kernels nothing was declared", WithSeparators(*races), WithSeparators(undeclared)),
        terminal);
  }
  if (faults > 0) out += Figure("faults", WithSeparators(faults) + " injected", terminal);
  if (run.main() != nullptr && run.main()->torch) {
    for (const std::string& note : run.main()->torch->notes) out += Figure("note", note, terminal);
  }
  return out;
}

// Sizes that were assumed stand first: the figures rest on them. A value that the host read matters where it decides.
std::string Assumptions(const Dryrun& run, const Terminal& terminal) {
  std::vector<const DryrunAssumption*> sizes, reads;
  for (const DryrunProcess& process : run.processes) {
    if (!process.torch) continue;
    for (const DryrunAssumption& one : process.torch->assumptions) {
      (one.led_to.starts_with("a size") ? sizes : reads).push_back(&one);
    }
  }
  if (sizes.empty() && reads.empty()) return "";
  const std::size_t all = sizes.size() + reads.size();
  std::string out =
      "\n" + Paint(Style::kBold, "assumed, as kernels do not run", terminal) + "\n" +
      (sizes.empty()
           ? "  values that the program read; the figures rest on them where it decides by one\n"
           : "  the peaks, steps and times rest on these sizes, and on values where the program decides by one\n");
  sizes.insert(sizes.end(), reads.begin(), reads.end());
  for (std::size_t i = 0; i < std::min(all, kAssumptionsShown); ++i) {
    const DryrunAssumption& one = *sizes[i];
    const std::string text = fmt::format("{}: {}{}{}: assumed {}", one.line, one.what, one.led_to.empty() ? "" : " -> ",
                                         one.led_to, one.assumed);
    for (const std::string& line : Wrap(Printable(text), terminal.width - 4)) out += "  " + line + "\n";
  }
  if (all > kAssumptionsShown) out += fmt::format("  and {} more (--json has all)\n", all - kAssumptionsShown);
  return out;
}

std::string Races(const Dryrun& run, const Terminal& terminal) {
  std::string out;
  const auto text = [](const Json& site, const char* key) {
    return site.is_object() && site.contains(key)
               ? (site[key].is_string() ? site[key].get<std::string>() : site[key].dump())
               : "";
  };
  constexpr std::size_t kShown = 5;
  std::size_t shown = 0;
  for (const DryrunProcess& process : run.processes) {
    for (const Json& race : process.races) {
      if (shown++ >= kShown || !race.is_object()) continue;
      for (const char* which : {"first", "second"}) {
        const Json site = race.value(which, Json::object());
        out += fmt::format("  {} {} in stream {}{}{}\n", which == std::string_view("first") ? "race:" : "     ",
                           text(site, "name") + " " + text(site, "access") + "s", text(site, "stream"),
                           text(site, "frame").empty() ? "" : ", ", Printable(text(site, "frame")));
      }
    }
  }
  return out.empty() ? out : "\n" + Paint(Style::kRed, "accesses that nothing orders", terminal) + "\n" + out;
}

std::string Plotted(const MemoryTimeline& timeline, const Terminal& terminal) {
  constexpr std::size_t kMost = 4096;
  std::vector<std::int64_t> values;
  for (const TimelineSample& sample : SampleTimeline(timeline, kMost)) values.push_back(sample.allocated());
  if (values.empty()) return "";
  const std::string top = FormatBytes(*std::max_element(values.begin(), values.end()));
  const int label = Columns(top);
  const auto width = static_cast<std::size_t>(std::max(10, terminal.width - label - 1));
  const auto lines = Plot(Stretch(SampleMaxima(values, width), width), kPlotHeight, terminal);
  std::string out = "\n" + Paint(Style::kBold, "allocated memory over the run", terminal) + "\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string mark = i == 0 ? top : i + 1 == lines.size() ? "0" : "";
    const std::string line = lines[i].substr(0, lines[i].find_last_not_of(' ') + 1);
    out += PadLeft(mark, label) + " " + Paint(Style::kBlue, line, terminal) + "\n";
  }
  return out;
}

std::string AtThePeak(const MemoryTimeline& timeline, const Terminal& terminal) {
  const std::int64_t peak = PeakEvent(timeline);
  std::array<Bytes, kMemoryCategories> bytes{};
  std::vector<const TimedAllocation*> live;
  for (const TimedAllocation& allocation : timeline.allocations) {
    if (allocation.begin > peak || allocation.end <= peak) continue;
    bytes[static_cast<std::size_t>(allocation.category)] += allocation.bytes;
    live.push_back(&allocation);
  }
  std::stable_sort(live.begin(), live.end(), [](auto* a, auto* b) { return a->bytes > b->bytes; });
  std::string line;
  for (std::size_t i = 0; i < kMemoryCategories; ++i) {
    if (bytes[i] == 0) continue;
    line +=
        fmt::format("{}{} {}", line.empty() ? "" : ", ", Name(static_cast<MemoryCategory>(i)), FormatBytes(bytes[i]));
  }
  std::string out;
  if (!line.empty()) out += "\n" + Figure("at the peak", line, terminal);
  Table table({{.title = "largest at the peak", .shrinks = true},
               {.title = "category"},
               {.title = "line", .shrinks = true},
               {.title = "size", .align = Align::kRight}});
  for (std::size_t i = 0; i < std::min(live.size(), kLargestShown); ++i) {
    const auto text = [&](int index) { return index < 0 ? "" : timeline.texts[static_cast<std::size_t>(index)]; };
    const std::vector<int>* stack =
        live[i]->stack < 0 ? nullptr : &timeline.stacks[static_cast<std::size_t>(live[i]->stack)];
    table.Add({text(live[i]->name), Name(live[i]->category),
               stack == nullptr || stack->empty() ? "" : text(stack->front()), FormatBytes(live[i]->bytes)});
  }
  if (!table.empty()) out += "\n" + table.Render(terminal);
  return out;
}

// What stands in place of the figures.
std::string NotObserved(const Dryrun& run, const Terminal& terminal) {
  std::string out;
  if (!run.lost.empty()) {
    out +=
        Figure("not observed",
               fmt::format("the record is lost: process {} used the GPU, and was killed before it could write what it "
                           "took (or still runs)",
                           Names(run.lost)),
               terminal);
  }
  for (const DryrunProcess& process : run.processes) {
    if (process.torch) continue;
    out += Figure(
        out.empty() ? "not observed" : "",
        process.end == "signal"
            ? fmt::format("process {} used the GPU, and a signal ended it before torch could be asked", process.pid)
            : fmt::format("process {} used the GPU, and no torch could be watched in it", process.pid),
        terminal);
  }
  return out + Warnings(run, terminal);
}

// Worst first, and how far the others are from it.
std::string Ranks(const Dryrun& run, const Terminal& terminal) {
  constexpr std::size_t kRanksShown = 16;
  const std::vector<DryrunRank> ranks = run.ranks();
  if (ranks.empty()) return "";
  Table table({{.title = "rank", .align = Align::kRight},
               {.title = "GPU", .align = Align::kRight},
               {.title = "reserved", .align = Align::kRight},
               {.title = "allocated", .align = Align::kRight},
               {.title = "NCCL", .align = Align::kRight},
               {.title = "total", .align = Align::kRight},
               {.title = "steps", .align = Align::kRight},
               {.title = "peak at", .shrinks = true}});
  for (std::size_t i = 0; i < std::min(ranks.size(), kRanksShown); ++i) {
    const DryrunRank& rank = ranks[i];
    const TorchFigures& torch = *rank.process->torch;
    table.Add({fmt::format("{}", rank.rank), fmt::format("{}", rank.gpu), FormatBytes(rank.peak_reserved),
               FormatBytes(rank.peak_allocated), FormatBytes(rank.nccl), FormatBytes(rank.total),
               WithSeparators(torch.steps), PlaceOf(torch.peak_step, torch.peak_line)});
  }
  std::string out = "\n" + table.Render(terminal);
  if (ranks.size() > kRanksShown) out += fmt::format("and {} more (--json has all)\n", ranks.size() - kRanksShown);
  if (ranks.size() > 1) {
    const Bytes most = ranks.front().total, least = ranks.back().total;
    out +=
        Figure("imbalance",
               most == least ? "none: all ranks alike"
                             : fmt::format("{} between rank {} and rank {}, {} of the most", FormatBytes(most - least),
                                           ranks.front().rank, ranks.back().rank, Share(most - least, most)),
               terminal);
  }
  return out;
}

std::string Processes(const Dryrun& run, const Terminal& terminal) {
  if (!run.ranks().empty()) return Ranks(run, terminal);
  if (run.processes.size() < 2) return "";
  Table table({{.title = "process", .align = Align::kRight},
               {.title = "reserved", .align = Align::kRight},
               {.title = "with context", .align = Align::kRight},
               {.title = "steps", .align = Align::kRight},
               {.title = "command", .shrinks = true}});
  for (const DryrunProcess& process : run.processes) {
    table.Add({fmt::format("{}", process.pid), process.torch ? FormatBytes(process.torch->peak_reserved) : "",
               FormatBytes(process.peak), process.torch ? WithSeparators(process.torch->steps) : "", process.command});
  }
  return "\n" + table.Render(terminal);
}

}  // namespace

std::string DryrunText(const Dryrun& run, const Terminal& terminal) {
  std::string words;
  for (const std::string& word : run.command) words += (words.empty() ? "" : " ") + word;
  std::string out =
      "\n" + Paint(Style::kBold, Shorten(Printable(words), terminal.width - 20, terminal.unicode), terminal) + "  " +
      Paint(Style::kDim, fmt::format("phantom {}, exit {}", run.gpu, run.exit_code), terminal) + "\n\n";
  const DryrunProcess* main = run.main();
  if (!run.observed()) return out + Ooms(run, terminal) + NotObserved(run, terminal) + Processes(run, terminal);
  if (main == nullptr) return out + "the GPU was never used\n";
  out += Ooms(run, terminal) + Figures(run, *main, terminal) + Warnings(run, terminal);
  if (main->timeline) out += Plotted(*main->timeline, terminal) + AtThePeak(*main->timeline, terminal);
  return out + Processes(run, terminal) + Assumptions(run, terminal) + Races(run, terminal);
}

}  // namespace ebbtide::report
