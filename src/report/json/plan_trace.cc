// Writes the events of a timeline.
#include "report/json/plan_trace.h"

#include <array>

#include "report/json.h"

namespace ebbtide::report {
namespace {

constexpr std::array<const char*, 3> kTracks{"compute", "copies to the host", "copies to the device"};

double Microseconds(Nanos time) { return static_cast<double>(time) / 1e3; }

std::string NameOf(const TrainingGraph& graph, const sim::Span& span) {
  if (span.op.valid()) return graph.op(span.op).kind;
  const std::string& name = graph.storage(span.storage).name;
  return name.empty() ? "storage " + std::to_string(span.storage.value) : name;
}

}  // namespace

std::string PlanTrace(const TrainingGraph& graph, const sim::Workload& workload, const sim::Schedule& schedule,
                      const sim::Outcome& outcome) {
  Json events = Json::array();
  for (std::size_t track = 0; track < kTracks.size(); ++track) {
    events.push_back(
        {{"ph", "M"}, {"pid", 0}, {"tid", track}, {"name", "thread_name"}, {"args", {{"name", kTracks[track]}}}});
  }
  const IdVector<sim::StepId, Bytes> bytes = sim::StepBytes(workload, schedule);
  sim::StepId step(0);
  for (const sim::Span& span : outcome.timeline) {
    Json arguments = Json::object();
    if (span.op.valid()) {
      const Op& op = graph.op(span.op);
      arguments = {{"op", span.op.value}, {"layer", op.layer}, {"again", span.again}, {"memory_bytes", bytes[step]}};
      events.push_back({{"ph", "C"},
                        {"pid", 0},
                        {"name", "device memory"},
                        {"ts", Microseconds(span.begin)},
                        {"args", {{"bytes", bytes[step]}}}});
      ++step;
    } else {
      arguments = {{"storage", span.storage.value}, {"bytes", workload.bytes[span.storage]}};
    }
    events.push_back({{"ph", "X"},
                      {"pid", 0},
                      {"tid", static_cast<int>(span.stream)},
                      {"name", NameOf(graph, span)},
                      {"cat", span.again        ? "recompute"
                              : span.op.valid() ? "op"
                                                : "copy"},
                      {"ts", Microseconds(span.begin)},
                      {"dur", Microseconds(span.end - span.begin)},
                      {"args", std::move(arguments)}});
  }
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump(-1, ' ', false,
                                                                                  Json::error_handler_t::replace) +
         "\n";
}

std::string PlanTrace(const jobs::PlanResult& result) {
  return PlanTrace(*result.graph, *result.workload, result.planned.plan->schedule, result.planned.outcome);
}

}  // namespace ebbtide::report
