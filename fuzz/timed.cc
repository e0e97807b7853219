// Traces with times and layer profiles: whatever the bytes are, a graph that passes Check or one line of complaint.
#include "model/timed/timed.h"

#include <cstdint>
#include <string>

#include "fuzz/require.h"
#include "graph/check.h"
#include "graph/json.h"
#include "graph/summary.h"

namespace {

using namespace ebbtide;

void Look(const Result<TrainingGraph>& graph) {
  if (!graph) {
    RequireOneLine(graph.error().message);
    return;
  }
  RequireGraph(*graph);
  Require(Summarize(*graph).peak == PeakLiveBytes(*graph, ComputeLiveness(*graph)), "one peak");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (model::timed::IsTimedTrace(text)) Look(model::timed::ParseTrace(text, "fuzz"));
  Look(model::timed::ParseLayers(text, "fuzz"));
  return 0;
}
