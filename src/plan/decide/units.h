// What can be run again, as decisions know it: an op that makes storages, with the ops that change them.
#pragma once

#include <vector>

#include "plan/problem.h"

namespace ebbtide::plan {

using UnitId = Id<struct UnitTag>;

// A maker and the later ops that change what it makes. Run again before the first run of op `stage`, it consists of
// those of its ops that come before `stage`.
struct Unit {
  struct Need {
    StorageId storage;
    OpId since;  // the op of the unit that needs it
  };
  struct Part {
    OpId op;
    Nanos time = 0;     // of the parts up to this one
    Bytes scratch = 0;  // the largest of the parts up to this one: workspace, and what is made and thrown away
  };
  std::vector<Part> parts;         // in the graph's order, the maker first
  std::vector<StorageId> returns;  // of what the maker makes: all that it makes with the right contents
  std::vector<Need> needs;         // without state and without what it returns; by `since`
  OpId last_stage;                 // the last op before whose first run it gives the same bits; the end: always

  OpId maker() const { return parts.front().op; }
};

struct Units {
  IdVector<UnitId, Unit> units;
  IdVector<StorageId, UnitId> of;   // that returns it; none: it cannot be made again
  IdVector<OpId, UnitId> by_maker;  // none: it makes nothing that can be made again
};

// Empty where nothing may be recomputed.
Units FindUnits(const Problem& problem);

}  // namespace ebbtide::plan
