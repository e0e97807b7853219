// How to have given storages on the device at one moment, within a budget, by running units again.
//
// The search goes backwards. To have a set of storages, one of them is made last; just before that, the others are
// there with what it is made from. So a set leads to earlier sets, down to one that is there already. The memory of
// each step is that of the set with what is made and what it is made from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/decide/units.h"

namespace ebbtide::plan {

struct ReachOptions {
  OpId stage;                     // before whose first run it happens
  Bytes room = 0;                 // for all storages but the state, and for workspaces
  std::int64_t most_sets = 1000;  // that are looked at; with a beam, that are found
  std::size_t beam = 0;           // not 0: so many sets of each number of runs are followed instead
  double thrift = 1;              // what memory weighs beside time when these are chosen
  double luck = 0;                // ... and what chance does
  std::uint64_t seed = 0;         // of chance
  bool may_drop = false;          // what is there may go at first and be made again: slower, and finds more
};

struct Reached {
  struct Step {
    UnitId unit;                    // that runs
    std::vector<StorageId> needed;  // that must be there behind the run, what it made among them
  };
  std::vector<Step> steps;  // in the order of time
};

// From the storages of `there` to all of `wanted`, state left out; as little time as a quick search finds. None: it
// found no way, which need not mean that there is none. `found`, where it is given: grows by the sets that were found.
std::optional<Reached> Reach(const Problem& problem, const Units& units, const IdVector<StorageId, bool>& there,
                             std::span<const StorageId> wanted, const ReachOptions& options,
                             std::int64_t* found = nullptr);

// No schedule without copies needs less memory: Floor(), and what it takes to have the needs of an op together, however
// often anything is run again. `op` as with Floor().
Bytes FloorOfSets(const Problem& problem, OpId* op = nullptr);

}  // namespace ebbtide::plan
