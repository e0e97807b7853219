// What a training step computes, saves and holds: the question of `ebbtide inspect`, and its answer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/profile.h"
#include "graph/graph.h"
#include "graph/summary.h"
#include "jobs/model.h"

namespace ebbtide::jobs {

struct InspectRequest {
  ModelRequest model;
  std::optional<DeviceProfile> gpu = {};  // whose op times to model; none: those that the graph brings
};

// A storage with what the first tensor in it and the op that makes it say about it.
struct LargeTensor {
  StorageSummary storage;
  std::string dtype;    // empty where no tensor is in the storage
  std::string made_by;  // kind of the op that makes it; empty: it exists before the step
  std::string layer;    // of that op
};

struct InspectResult {
  std::string model;                           // MODEL as it was asked for
  std::shared_ptr<const TrainingGraph> graph;  // with the times of the GPU, where one was asked for
  Summary summary;
  std::int64_t saved_storages = 0;  // whose bytes are summary.saved_bytes
  Bytes persistent = 0;             // parameters, buffers, optimizer state and inputs
  std::vector<LargeTensor> largest;
  std::vector<Bytes> live;                // by op, workspace included
  std::vector<std::size_t> phase_begins;  // first op of forward, backward and update; empty where phases alternate
};

Result<InspectResult> Inspect(const InspectRequest& request, const JobContext& context);

}  // namespace ebbtide::jobs
