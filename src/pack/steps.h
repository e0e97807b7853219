// What the parts of the packing share: items by number of section. Sections lie between the steps at which anything
// begins or ends; within one, the same items live.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "pack/pack.h"

namespace ebbtide::pack {

struct Block {
  int from = 0, to = 0;   // sections [from, to)
  Bytes size = 0;         // rounded up
  std::int64_t life = 0;  // in steps
  Bytes crowd = 0;        // the most bytes that live during one of its sections

  bool Meets(const Block& other) const { return from < other.to && other.from < to; }
};

struct Blocks {
  std::vector<Block> all;   // in the order of the items
  std::vector<Bytes> live;  // bytes of each section
  int sections() const { return static_cast<int>(live.size()); }
  Bytes peak() const { return live.empty() ? 0 : *std::max_element(live.begin(), live.end()); }
};

// The items pass CheckPackItems.
Blocks MakeBlocks(std::span<const PackItem> items, Bytes alignment);

inline constexpr Bytes kUnplaced = -1;

// Puts each of `order` at the lowest place where it fits, beside what `offsets` already places, and gives how many it
// has put there: not all once `stop` says so, or where one would reach above `limit`.
std::size_t FirstFit(const Blocks& blocks, std::span<const int> order, std::vector<Bytes>& offsets,
                     const std::function<bool()>& stop = {}, Bytes limit = std::numeric_limits<Bytes>::max());

// Offsets of all blocks as an allocator would give them that learns of each only when its life begins: the smallest gap
// that fits. Takes n log n time, where first fit may take n^2.
std::vector<Bytes> SweepFit(const Blocks& blocks);

// One past the highest byte. All blocks are placed.
Bytes HeightOf(const Blocks& blocks, std::span<const Bytes> offsets);

}  // namespace ebbtide::pack
