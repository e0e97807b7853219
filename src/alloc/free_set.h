// Free blocks ordered by size, then by the age of their segment, then by address: the structure behind every best fit
// here. Sorted leaves of bounded size under one sorted index, so that an operation touches a few cache lines and
// allocates memory once in many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "alloc/device_memory.h"

namespace ebbtide::alloc {

class FreeSet {
 public:
  struct Entry {
    Bytes size = 0;
    Address address = 0;
    std::int32_t age = 0;  // of the segment: its number
    std::int32_t block = -1;
  };
  // Where an entry stands. Valid until the set changes.
  struct Position {
    std::size_t leaf = 0;
    std::size_t slot = 0;
    bool operator==(const Position&) const = default;
  };

  bool empty() const { return leaves_.empty(); }
  std::size_t size() const { return size_; }

  void Insert(const Entry& entry);
  void Erase(Bytes size, std::int32_t age, Address address);  // it must be there
  void Erase(Position position);

  // The first entry, in the set's order, that is not before these three; end() where there is none.
  Position LowerBound(Bytes size, std::int32_t age = 0, Address address = 0) const;
  Position begin() const { return {}; }
  Position end() const { return {leaves_.size(), 0}; }
  Position Next(Position position) const {
    return ++position.slot < leaves_[position.leaf].size() ? position : Position{position.leaf + 1, 0};
  }
  Position Previous(Position position) const {
    if (position.slot > 0) return {position.leaf, position.slot - 1};
    return {position.leaf - 1, leaves_[position.leaf - 1].size() - 1};
  }
  const Entry& At(Position position) const { return leaves_[position.leaf][position.slot]; }

 private:
  static constexpr std::size_t kLeaf = 64;
  using Leaf = std::vector<Entry>;

  Leaf NewLeaf();

  std::vector<Entry> last_;   // of each leaf, what it ends with
  std::vector<Leaf> leaves_;  // none is empty
  std::vector<Leaf> spare_;   // memory of leaves that were emptied
  std::size_t size_ = 0;
};

}  // namespace ebbtide::alloc
