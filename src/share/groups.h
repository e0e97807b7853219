// NodeGroups: a training step cut into contiguous groups of steps, the unit in which several jobs take turns.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace ebbtide::share {

// One iteration of a job as the cut sees it, by step. Heights count from the job's end of its lane: one past the
// highest transient address in use. What the job keeps between iterations is not in them.
struct StepProfile {
  std::vector<Nanos> time;
  std::vector<Bytes> height;    // while the step runs
  std::vector<Bytes> after;     // once what ends with the step is free; 0 after the last
  std::vector<Bytes> crossing;  // transient bytes that live after the step, wherever they lie

  std::size_t steps() const { return time.size(); }
};

// The steps [begin, end), half-open.
struct NodeGroup {
  std::uint32_t begin = 0, end = 0;
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

// By dynamic programming over the steps; of more than 4096, over the least place of each of as many stretches. Deterministic; of several least cuts the one with the earliest last cut.
Cut CutGroups(const StepProfile& profile, const CutOptions& options = {});

// The cut behind the steps `ends`, which rise; the last is the number of steps.
std::vector<NodeGroup> GroupsAt(const StepProfile& profile, const std::vector<std::uint32_t>& ends);

}  // namespace ebbtide::share
