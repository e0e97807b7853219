// What `ebbtide inspect` shows of a graph, for people and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/summary.h"
#include "report/json.h"
#include "report/terminal.h"

namespace ebbtide::report {

// A storage with what the first tensor in it and the op that makes it say about it.
struct LargeTensor {
  StorageSummary storage;
  std::string dtype;    // empty where no tensor is in the storage
  std::string made_by;  // kind of the op that makes it; empty: it exists before the step
  std::string layer;    // of that op
};

// The figures that both faces show, found once.
struct Inspection {
  std::string model;  // MODEL as the user gave it
  std::string name;   // the graph's own
  std::map<std::string, std::string> meta;
  Summary summary;
  std::int64_t saved_storages = 0;  // whose bytes are summary.saved_bytes
  Bytes persistent = 0;             // parameters, buffers, optimizer state and inputs
  std::vector<LargeTensor> largest;
  std::vector<Bytes> live;                // by op, workspace included
  std::vector<std::size_t> phase_begins;  // first op of forward, backward and update; empty where phases alternate
  Op peak_op;                             // a copy of the op at summary.peak.at, if that is valid
};

// Of a graph that passes Check.
Inspection Inspect(const TrainingGraph& graph, const std::string& model);

// The fields are in docs/command-line.md.
Json InspectJson(const Inspection& inspection);
std::string InspectText(const Inspection& inspection, const Terminal& terminal);

}  // namespace ebbtide::report
