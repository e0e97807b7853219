// What a graph is, in a few digits: plans and cached results say which graph they are for.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace ebbtide {

// FNV-1a, 64 bit: finds changes, keeps no secrets.
class Fingerprint {
 public:
  void Add(std::string_view text);
  void Add(std::int64_t value);
  std::string Hex() const;  // 16 digits

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

// Of the storages, the tensors and the ops: what they are, not how long they take or what they are called. The graph's
// framework and the other fields of its head are left out: a file that has them and one of before them, which says the
// same in `meta`, have the same hash, and plans for either go with both.
std::string GraphHash(const TrainingGraph& graph);

}  // namespace ebbtide
