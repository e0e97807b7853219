// The reduced search space: which storages a search decides about, and which of them it decides about together.
#pragma once

#include <vector>

#include "plan/problem.h"

namespace ebbtide::plan {

using CandidateId = Id<struct CandidateTag>;  // one decision of the search

struct Candidates {
  sim::Lists<CandidateId, StorageId> groups;  // storages that are decided about together, the largest first
  std::size_t considered = 0;                 // storages that could leave the device at all

  std::size_t size() const { return groups.size(); }
};

struct CandidateOptions {
  bool reduce = true;           // false: every storage that can leave is decided about alone
  double least_share = 0.0005;  // of the shortage: what is smaller hardly helps
};

// Left out: storages that are idle at no op at which memory is short, and those too small to matter. Tied: what one op
// makes, since making one again makes all.
Candidates FindCandidates(const Problem& problem, const CandidateOptions& options = {});

}  // namespace ebbtide::plan
