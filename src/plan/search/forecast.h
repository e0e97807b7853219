// How much memory the rest of the step will take, if what is away comes back when it is next needed.
#pragma once

#include <vector>

#include "base/id_vector.h"
#include "base/units.h"

namespace ebbtide::plan {

// Values by op; a tree, so that adding to a run of them and taking the most of a run are quick.
class Forecast {
 public:
  Forecast() = default;
  explicit Forecast(const IdVector<OpId, Bytes>& values);

  // Adds `bytes` to the values of all ops from `from` on.
  void Add(OpId from, Bytes bytes);
  // The largest value of the ops [from, to), half-open, of which there is at least one.
  Bytes Most(OpId from, OpId to) const;

 private:
  std::size_t leaves_ = 0;
  std::vector<Bytes> most_;   // of the subtree, with what was added to parts of it
  std::vector<Bytes> added_;  // to the whole subtree
};

}  // namespace ebbtide::plan
