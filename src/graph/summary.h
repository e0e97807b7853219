// A graph in numbers: what `inspect` shows.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/liveness.h"
#include "graph/names.h"

namespace ebbtide {

// Ops of one kind.
struct KindSummary {
  std::string kind;
  std::array<std::int64_t, kPhases> ops{};  // by phase
  std::int64_t flops = 0;
  Nanos time = 0;
};

struct StorageSummary {
  StorageId storage;
  Bytes bytes = 0;
  StorageKind kind = StorageKind::kActivation;
  std::string name;    // its own, else that of its first tensor; may be empty
  Dims shape;          // of its first tensor; empty where it has none
  OpId producer;       // invalid: persistent
  bool saved = false;  // made in forward and read in backward
};

struct Summary {
  std::int64_t parameters = 0;  // elements of the distinct parameter storages: tied weights count once
  std::int64_t ops = 0;
  std::int64_t tensors = 0;
  std::int64_t storages = 0;
  std::array<std::int64_t, kPhases> ops_by_phase{};
  std::array<std::int64_t, kPhases> flops_by_phase{};
  std::array<Bytes, kStorageKinds> bytes_by_kind{};
  Bytes saved_bytes = 0;  // distinct storages that a forward op produces and a backward op reads
  Nanos time = 0;         // sum over the ops; 0: not known
  Peak peak;
  std::vector<KindSummary> kinds;       // most FLOPs first, then most ops, then by name
  std::vector<StorageSummary> largest;  // largest first, then by number

  std::int64_t forward_flops() const { return flops_by_phase[static_cast<std::size_t>(Phase::kForward)]; }
};

// Of a graph that passes Check. `largest` bounds the list of that name.
Summary Summarize(const TrainingGraph& graph, std::size_t largest = 10);

// By number of storage: a forward op produces it and a backward op reads it (or a view of it).
std::vector<bool> SavedForBackward(const TrainingGraph& graph);

}  // namespace ebbtide
