// Symbols of MXNet: whatever the bytes are, a graph that passes Check or one line of complaint.
#include "model/mxnet/mxnet.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "estimate/mxnet_plan.h"
#include "graph/check.h"
#include "graph/json.h"

namespace {

using namespace ebbtide;

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  model::ModelOptions options;
  options.batch_size = 2;
  options.image_size = 32;
  options.inference = size % 2 == 1;
  const Result<TrainingGraph> graph = model::mxnet::ParseModel("fuzz", text, options);
  if (!graph) {
    const std::string& message = graph.error().message;
    Require(message.starts_with("fuzz: "), "the file comes first");
    Require(message.size() < 1000 && message.find('\n') == std::string::npos, "one line");
    return 0;
  }
  Require(Check(*graph).has_value(), "what was read passes Check");
  Require(ParseGraph(ToJson(*graph), "fuzz").has_value(), "it can be written as a graph");
  const estimate::MxnetPlan plan = estimate::PlanMxnet(*graph);
  for (std::size_t i = 0; i < graph->storages.size(); ++i) {
    if (plan.pool_of[i] == estimate::MxnetPlan::kExternal) continue;
    Require(graph->storages[i].bytes <= plan.pools[static_cast<std::size_t>(plan.pool_of[i])],
            "every result fits its block");
  }
  return 0;
}
