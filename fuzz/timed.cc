// Traces with times and layer profiles: whatever the bytes are, a graph that passes Check or one line of complaint.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "graph/check.h"
#include "graph/json.h"
#include "graph/summary.h"
#include "model/timed/timed.h"

namespace {

using namespace ebbtide;

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

void Look(const Result<TrainingGraph>& graph) {
  if (!graph) {
    const std::string& message = graph.error().message;
    Require(message.starts_with("fuzz: "), "the file comes first");
    Require(message.size() < 1000 && message.find('\n') == std::string::npos, "one line");
    return;
  }
  Require(Check(*graph).has_value(), "what was read passes Check");
  Require(ParseGraph(ToJson(*graph), "fuzz").has_value(), "it can be written as a graph");
  Require(Summarize(*graph).peak == PeakLiveBytes(*graph, ComputeLiveness(*graph)), "one peak");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (model::timed::IsTimedTrace(text)) Look(model::timed::ParseTrace(text, "fuzz"));
  Look(model::timed::ParseLayers(text, "fuzz"));
  return 0;
}
