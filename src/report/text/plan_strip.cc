// Draws an iteration as lines of blocks.
#include "report/text/plan_strip.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "graph/names.h"
#include "report/text/plot.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

using Samples = std::vector<std::int64_t>;

constexpr int kMemoryHeight = 5;
constexpr std::size_t kPhases = 3;
constexpr std::string_view kAgain = "recompute";

// Time cut into equal slices, one per column.
class Slices {
 public:
  Slices(Nanos time, std::size_t count) : time_(std::max<Nanos>(time, 1)), count_(count) {}

  std::size_t count() const { return count_; }
  // The boundaries are rounded down, so that together the slices are the whole.
  Nanos Begin(std::size_t slice) const {
    return static_cast<Nanos>(static_cast<double>(time_) * static_cast<double>(slice) / static_cast<double>(count_));
  }
  std::size_t At(Nanos time) const {
    const auto slice =
        static_cast<std::size_t>(static_cast<double>(time) * static_cast<double>(count_) / static_cast<double>(time_));
    return std::min(slice, count_ - 1);
  }
  // Calls visit(slice, nanoseconds of it) for the slices that [begin, end) touches.
  template <class Visit>
  void Each(Nanos begin, Nanos end, const Visit& visit) const {
    for (std::size_t s = At(begin); s < count_ && Begin(s) < end; ++s) {
      visit(s, std::max<Nanos>(0, std::min(end, Begin(s + 1)) - std::max(begin, Begin(s))));
    }
  }

 private:
  Nanos time_;
  std::size_t count_;
};

Samples Memory(const sim::Workload& workload, const sim::Schedule& schedule, const sim::Outcome& outcome,
               const Slices& slices) {
  Samples out(slices.count(), 0);
  const IdVector<sim::StepId, Bytes> bytes = sim::StepBytes(workload, schedule);
  for (const sim::StepId k : bytes.ids()) {
    const Nanos begin = outcome.boundary[k], end = std::max(outcome.boundary[k.Next()], begin + 1);
    slices.Each(begin, end, [&](std::size_t s, Nanos) { out[s] = std::max(out[s], bytes[k]); });
  }
  // While the last copies end, what stays is there.
  slices.Each(outcome.boundary.back(), outcome.time, [&](std::size_t s, Nanos) {
    if (out[s] == 0 && s > 0) out[s] = out[s - 1];
  });
  return out;
}

// By stream the thousandths of each slice in which it is busy; the last entry: compute with recomputations alone.
std::array<Samples, 5> Busy(const sim::Outcome& outcome, const Slices& slices) {
  std::array<Samples, 5> out;
  out.fill(Samples(slices.count(), 0));
  for (const sim::Span& span : outcome.timeline) {
    slices.Each(span.begin, span.end, [&](std::size_t s, Nanos busy) {
      out[static_cast<std::size_t>(span.stream)][s] += busy;
      if (span.again) out[4][s] += busy;
    });
  }
  for (Samples& samples : out) {
    for (std::size_t s = 0; s < samples.size(); ++s) {
      const Nanos length = std::max<Nanos>(1, slices.Begin(s + 1) - slices.Begin(s));
      const auto share = static_cast<double>(samples[s]) / static_cast<double>(length);
      samples[s] = samples[s] == 0 ? 0 : std::clamp<std::int64_t>(static_cast<std::int64_t>(share * 1000), 1, 1000);
    }
  }
  return out;
}

// "╵forward   ╵backward   ╵update" under the columns in which they begin.
std::string PhaseLine(const TrainingGraph& graph, const sim::Outcome& outcome, const Slices& slices,
                      const Terminal& terminal) {
  std::array<std::size_t, kPhases + 1> begins;
  begins.fill(slices.count());
  for (const sim::Span& span : outcome.timeline) {
    if (!span.op.valid() || span.again) continue;
    std::size_t& begin = begins[static_cast<std::size_t>(graph.op(span.op).phase)];
    begin = std::min(begin, slices.At(span.begin));
  }
  for (std::size_t phase = kPhases; phase-- > 0;) begins[phase] = std::min(begins[phase], begins[phase + 1]);
  const std::string_view mark = terminal.unicode ? "╵" : "|";
  std::string out = PadRight("", static_cast<int>(begins[0]));
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    const int width = static_cast<int>(begins[phase + 1] - begins[phase]);
    if (width <= 0) continue;
    const std::string label = std::string(mark) + std::string(Name(static_cast<Phase>(phase)));
    out += PadRight(Columns(label) <= width ? label : mark, width);
  }
  return out;
}

std::string Line(std::string_view label, int width, const std::string& blocks, Style style, const Terminal& terminal) {
  const std::string shown = blocks.substr(0, blocks.find_last_not_of(' ') + 1);
  return PadLeft(label, width) + (shown.empty() ? "" : " " + Paint(style, shown, terminal)) + "\n";
}

}  // namespace

std::string PlanStrip(const TrainingGraph& graph, const sim::Workload& workload, const sim::Schedule& schedule,
                      const sim::Outcome& outcome, const Terminal& terminal) {
  if (outcome.timeline.empty() || outcome.time <= 0) return "";
  const std::string top = FormatBytes(outcome.peak);
  const std::string_view widest = outcome.exchange > 0 ? "collectives" : kAgain;
  const int label = std::max(Columns(top), Columns(widest));
  const Slices slices(outcome.time, static_cast<std::size_t>(std::max(20, terminal.width - label - 1)));
  std::string out = fmt::format("one iteration, {}: memory, and how busy the streams are\n", FormatTime(outcome.time));
  const std::vector<std::string> memory =
      Plot(Memory(workload, schedule, outcome, slices), kMemoryHeight, terminal, outcome.peak);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const std::string_view mark = i == 0 ? std::string_view(top) : i + 1 == memory.size() ? "0" : "";
    out += Line(mark, label, memory[i], Style::kBlue, terminal);
  }
  const std::array<Samples, 5> busy = Busy(outcome, slices);
  const auto track = [&](std::string_view name, std::size_t which, Style style) {
    out += Line(name, label, Plot(busy[which], 1, terminal, 1000).front(), style, terminal);
  };
  track("compute", 0, Style::kDim);
  if (outcome.recompute > 0) track(kAgain, 4, Style::kRed);
  if (outcome.copied_out > 0) track("to host", 1, Style::kDim);
  if (outcome.copied_in > 0) track("to device", 2, Style::kDim);
  if (outcome.exchange > 0) track("collectives", 3, Style::kDim);
  out += Line("", label, PhaseLine(graph, outcome, slices, terminal), Style::kDim, terminal);
  return out;
}

}  // namespace ebbtide::report
