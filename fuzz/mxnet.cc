// Symbols of MXNet: whatever the bytes are, a graph that passes Check or one line of complaint.
#include "model/mxnet/mxnet.h"

#include <cstdint>
#include <string>

#include "estimate/mxnet_plan.h"
#include "fuzz/require.h"
#include "graph/check.h"
#include "graph/json.h"

using namespace ebbtide;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  model::ModelOptions options;
  options.batch_size = 2;
  options.image_size = 32;
  options.inference = size % 2 == 1;
  const Result<TrainingGraph> graph = model::mxnet::ParseModel("fuzz", text, options);
  if (!graph) {
    RequireOneLine(graph.error().message);
    return 0;
  }
  RequireGraph(*graph);
  const estimate::MxnetPlan plan = estimate::PlanMxnet(*graph);
  for (std::size_t i = 0; i < graph->storages.size(); ++i) {
    if (plan.pool_of[i] == estimate::MxnetPlan::kExternal) continue;
    Require(graph->storages[i].bytes <= plan.pools[static_cast<std::size_t>(plan.pool_of[i])],
            "every result fits its block");
  }
  return 0;
}
