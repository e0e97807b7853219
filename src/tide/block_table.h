// Blocks by address: what a free that knows nothing but the address needs. Open addressing, so that a call touches one
// or two cache lines however many there are.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/huge_pages.h"
#include "tide/names.h"

namespace ebbtide::tide {

class BlockTable {
 public:
  // The address is not 0, and no block is known to begin there.
  void Insert(Address address, BlockId block) {
    if (2 * (size_ + 1) > slots_.size()) Grow();
    std::size_t at = Home(address);
    while (slots_[at].address != 0) at = Next(at);
    slots_[at] = {address, block};
    ++size_;
  }
  // The block that begins at the address; an invalid id where there is none.
  BlockId Find(Address address) const {
    const std::size_t at = Locate(address);
    return at < slots_.size() ? slots_[at].block : BlockId();
  }
  // The same, and forgets it.
  BlockId Remove(Address address) {
    std::size_t gap = Locate(address);
    if (gap >= slots_.size()) return {};
    const BlockId block = slots_[gap].block;
    --size_;
    // What would not be found past the gap moves into it.
    for (std::size_t at = Next(gap); slots_[at].address != 0; at = Next(at)) {
      const std::size_t home = Home(slots_[at].address);
      const bool stays = gap < at ? gap < home && home <= at : gap < home || home <= at;
      if (stays) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap] = {};
    return block;
  }
  std::size_t size() const { return size_; }

 private:
  struct Slot {
    Address address = 0;
    BlockId block;
  };
  using Slots = std::vector<Slot, HugePages<Slot>>;

  std::size_t Home(Address address) const {
    return static_cast<std::size_t>((address >> 9) * 0x9e3779b97f4a7c15u >> shift_);
  }
  std::size_t Next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }
  std::size_t Locate(Address address) const {
    if (slots_.empty()) return 0;
    std::size_t at = Home(address);
    while (slots_[at].address != address) {
      if (slots_[at].address == 0) return slots_.size();
      at = Next(at);
    }
    return at;
  }
  void Grow() {
    const Slots old = std::exchange(slots_, Slots(slots_.empty() ? 1024 : 2 * slots_.size()));
    shift_ = 64 - __builtin_ctzll(slots_.size());
    size_ = 0;
    for (const Slot& slot : old) {
      if (slot.address != 0) Insert(slot.address, slot.block);
    }
  }

  Slots slots_;
  std::size_t size_ = 0;
  int shift_ = 63;
};

}  // namespace ebbtide::tide
