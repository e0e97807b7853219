// How much memory the rest of the step will take, if what is away comes back when it is next needed.
#pragma once

#include <vector>

#include "base/units.h"
#include "sim/lists.h"

namespace ebbtide::plan {

// Values by op; a tree, so that adding to a run of them and taking the most of a run are quick.
class Forecast {
 public:
  Forecast() = default;
  explicit Forecast(const std::vector<Bytes>& values);

  // To all values from `from` on.
  void Add(sim::Index from, Bytes bytes);
  // Of [from, to); from < to.
  Bytes Most(sim::Index from, sim::Index to) const;

 private:
  std::size_t leaves_ = 0;
  std::vector<Bytes> most_;   // of the subtree, with what was added to parts of it
  std::vector<Bytes> added_;  // to the whole subtree
};

}  // namespace ebbtide::plan
