// Splitting and joining of cells.
#include "phantom/core/race_shadow.h"

#include <iterator>
#include <utility>

namespace ebbtide::phantom {

RaceShadow::Cells::iterator RaceShadow::SplitAt(std::uint64_t address) {
  auto next = cells_.lower_bound(address);
  if (next == cells_.begin()) return next;
  auto before = std::prev(next);
  if (before->second.end <= address) return next;
  Cell tail = before->second;
  before->second.end = address;
  return cells_.emplace_hint(next, address, std::move(tail));
}

RaceShadow::Cells::iterator RaceShadow::Tidy(Cells::iterator cell) {
  if (cell->second.history.empty()) return cells_.erase(cell);
  if (cell == cells_.begin()) return std::next(cell);
  auto before = std::prev(cell);
  if (before->second.end != cell->first || before->second.history != cell->second.history) return std::next(cell);
  before->second.end = cell->second.end;
  return cells_.erase(cell);
}

}  // namespace ebbtide::phantom
