// What `ebbtide estimate` shows, for people and as JSON, and a prediction as a timeline for the page.
#pragma once

#include <string>

#include "estimate/estimate.h"
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
  estimate::Estimate estimate;
};

// The fields are in docs/command-line.md.
Json EstimateJson(const Prediction& prediction);
std::string EstimateText(const Prediction& prediction, const Terminal& terminal);
// Of an estimate that kept its timeline.
MemoryTimeline EstimateTimeline(const Prediction& prediction);

}  // namespace ebbtide::report
