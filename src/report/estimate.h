// What `ebbtide estimate` shows, for people and as JSON, and a prediction as a timeline for the page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimate/estimate.h"
#include "estimate/safety.h"
#include "graph/graph.h"
#include "report/json.h"
#include "report/memory_timeline.h"
#include "report/terminal.h"

namespace ebbtide::report {

// One prediction and what it is of.
struct Prediction {
  std::string model;  // MODEL as the user gave it
  const TrainingGraph* graph = nullptr;
  const DeviceProfile* gpu = nullptr;
  estimate::TrainingOptions training;
  estimate::Estimate estimate;  // with its timeline
  estimate::SafeFigure safe;
  std::optional<std::int64_t> largest_batch;  // of a job that does not fit, where it was looked for; 0: none fits
  std::vector<std::string> notes;             // what the figures do not cover
};

// What the total consists of when most is allocated: names of torch's MemTracker, and workspace, fragmentation, reservation,
// context. The bytes sum up to the total.
struct Contribution {
  std::string name;
  Bytes bytes = 0;
};
std::vector<Contribution> BreakdownOf(const Prediction& prediction);
// The largest of them, largest first.
std::vector<Contribution> LargestOf(const Prediction& prediction, std::size_t count);
// What the device would have to have more, of a job that does not fit.
Bytes LackOf(const estimate::Estimate& estimate);

// A request that lives when most is allocated.
struct TensorAtPeak {
  Bytes bytes = 0;
  std::string category;
  std::string name;  // of a parameter, buffer or input; may be empty
  std::string made_by, layer;
  std::string dtype;
  Dims shape;  // of the first tensor on the storage; empty for scratch memory
};
// The largest first.
std::vector<TensorAtPeak> TensorsAtPeak(const Prediction& prediction, std::size_t count);

// "iteration 2, addmm of fc".
std::string PlaceText(const estimate::Moment& moment, const TrainingGraph& graph);

// The fields are in docs/command-line.md.
Json EstimateJson(const Prediction& prediction);
std::string EstimateText(const Prediction& prediction, const Terminal& terminal);
MemoryTimeline EstimateTimeline(const Prediction& prediction);
// The names of the breakdown.
const char* CategoryName(estimate::Category category);
// The bytes of a pickle in the form of torch's memory snapshots; of a job that does not fit, up to the request that
// fails. The prediction has its timeline; `allocator` is a model of segments, the one that it was made with.
std::string EstimateSnapshot(const Prediction& prediction, const alloc::AllocatorChoice& allocator);

}  // namespace ebbtide::report
