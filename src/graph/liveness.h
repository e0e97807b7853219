// When each storage is alive, from the references in the graph alone. All functions take a graph that passes Check
// and are linear in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace ebbtide {

// A storage takes memory during the ops [born, end), half-open: op `born` already needs it, op `end` no longer does.
struct Lifetime {
  OpId born;                   // the op that produces it; 0 for a persistent storage
  OpId end;                    // one past the op after which the last reference is dropped; the number of ops for
                               // what outlives the step
  OpId last_use;               // the last op that reads, mutates or yields a tensor of it; invalid: none does
  bool persistent = false;     // exists before the step, and after it
  bool outlives_step = false;  // persistent, or still referenced by an output of the graph

  bool operator==(const Lifetime&) const = default;
  bool LivesDuring(OpId op) const { return born <= op && op < end; }
};

// One per storage.
std::vector<Lifetime> ComputeLiveness(const TrainingGraph& graph);

// Storages that become free after each op, in order of their numbers; those that outlive the step never do.
class Releases {
 public:
  Releases(const TrainingGraph& graph, std::span<const Lifetime> lifetimes);
  std::span<const StorageId> After(OpId op) const {
    return std::span(storages_).subspan(begin_[op.index()], begin_[op.index() + 1] - begin_[op.index()]);
  }

 private:
  std::vector<std::uint32_t> begin_;  // of each op's part of storages_; one more than ops
  std::vector<StorageId> storages_;
};

// Bytes of the storages that live during each op, and of its workspace.
std::vector<Bytes> LiveBytes(const TrainingGraph& graph, std::span<const Lifetime> lifetimes);

// The most memory the step needs when nothing is lost to rounding or fragmentation, and the first op that needs it.
struct Peak {
  Bytes bytes = 0;
  OpId at;  // invalid where there are no ops: then the persistent storages alone count
  bool operator==(const Peak&) const = default;
};
Peak PeakLiveBytes(const TrainingGraph& graph, std::span<const Lifetime> lifetimes);

}  // namespace ebbtide
