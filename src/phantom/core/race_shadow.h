// What is remembered of every byte of memory: the accesses that a later one could still race with. Bytes with the same
// history are one cell; cells are split where an access begins or ends and joined again where histories are equal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "base/units.h"

namespace ebbtide::phantom {

enum class AccessKind : std::uint8_t {
  kRead,
  kWrite,
  kFree,      // orders like a write; whatever touches the bytes afterwards uses memory that is gone
  kAllocate,  // orders like a write; the bytes are there again
};

struct Access {
  std::uint64_t begin = 0;
  Bytes bytes = 0;
  AccessKind kind = AccessKind::kRead;
  bool on_host = false;  // pinned memory
};

class RaceShadow {
 public:
  struct Entry {
    std::uint64_t operation = 0;
    int stream = -1;  // -1: the host
    std::uint32_t site = 0;
    AccessKind kind = AccessKind::kRead;
    bool operator==(const Entry&) const = default;
  };
  using History = std::vector<Entry>;

  // Calls visit(history, begin, end) for every cell of [begin, begin + bytes), in order. With `fill`, bytes that have
  // no history are visited as well, with an empty one. Cells whose history is empty afterwards are gone.
  template <class Visit>
  void ForEach(std::uint64_t begin, Bytes bytes, bool fill, Visit&& visit) {
    std::uint64_t end = begin + static_cast<std::uint64_t>(bytes);
    auto cell = SplitAt(begin);
    SplitAt(end);
    std::uint64_t at = begin;
    while (at < end) {
      bool gap = cell == cells_.end() || cell->first > at;
      if (gap) {
        std::uint64_t gap_end = cell == cells_.end() ? end : std::min(end, cell->first);
        if (!fill) {
          at = gap_end;
          continue;
        }
        cell = cells_.emplace_hint(cell, at, Cell{gap_end, {}});
      }
      at = cell->second.end;
      visit(cell->second.history, cell->first, at);
      cell = Tidy(cell);
    }
    if (cell != cells_.end()) Tidy(cell);
  }

  // Removes what `is_past(entry)` says of all histories.
  template <class IsPast>
  void Sweep(IsPast&& is_past) {
    for (auto cell = cells_.begin(); cell != cells_.end();) {
      std::erase_if(cell->second.history, is_past);
      cell = Tidy(cell);
    }
  }

  std::size_t cell_count() const { return cells_.size(); }

 private:
  struct Cell {
    std::uint64_t end = 0;
    History history;
  };
  using Cells = std::map<std::uint64_t, Cell>;  // by begin, disjoint

  // The first cell at or behind `address`, none of which holds it inside.
  Cells::iterator SplitAt(std::uint64_t address);
  // Removes the cell if it is empty, joins it with the one before it if they are alike; returns the one behind it.
  Cells::iterator Tidy(Cells::iterator cell);

  Cells cells_;
};

}  // namespace ebbtide::phantom
