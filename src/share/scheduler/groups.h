// NodeGroups: a training step cut into contiguous groups of steps, the unit in which several jobs take turns.
#pragma once

#include <vector>

#include "base/id_vector.h"
#include "base/units.h"
#include "sim/schedule.h"

namespace ebbtide::share {

using sim::StayId;
using sim::StepId;

// One iteration of a job as the cut sees it. Heights count from the job's end of its lane: one past the
// highest transient address in use. What the job keeps between iterations is not in them.
struct StepProfile {
  IdVector<StepId, Nanos> time;
  IdVector<StepId, Bytes> height;    // while the step runs
  IdVector<StepId, Bytes> after;     // once what ends with the step is free; 0 after the last
  IdVector<StepId, Bytes> crossing;  // transient bytes that live after the step, wherever they lie

  std::size_t steps() const { return time.size(); }
};

// The steps [begin, end), half-open.
struct NodeGroup {
  StepId begin{0}, end{0};
  Nanos time = 0;
  Bytes peak = 0;      // the height while it runs; at least that before it and that after it
  Bytes after = 0;     // the height when it has run
  Bytes crossing = 0;  // bytes that live at the cut behind it

  bool operator==(const NodeGroup&) const = default;
};

struct CutOptions {
  int groups = 16;  // at most, up to 1024; fewer where there are fewer steps
  // A group's time lies within this share of the mean, unless single steps are too long for that: then the share is
  // doubled until there is a cut.
  double tolerance = 0.25;
};

struct Cut {
  std::vector<NodeGroup> groups;
  double tolerance = 0;  // that was kept
  Bytes crossing = 0;    // sum over the cuts between groups: the least for this number of groups and tolerance
};

// By dynamic programming over the steps; of more than 4096, over the least place of each of as many stretches.
// Deterministic; of several least cuts the one with the earliest last cut.
Cut CutGroups(const StepProfile& profile, const CutOptions& options = {});

// The cut into groups that end at `ends`, which rise; the last ends the iteration.
std::vector<NodeGroup> GroupsAt(const StepProfile& profile, const std::vector<StepId>& ends);

}  // namespace ebbtide::share
