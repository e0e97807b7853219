// Depth-first search for a packing of a given capacity, around blocks that already have their place.
//
// Blocks are placed from low offsets to high, each on the lowest place above what is placed: a packing in which no
// block can fall can be built so, and every other can be turned into one of these. A branch is given up when
//   - a section has more bytes to place than are left above the lowest place that any of them can still have,
//   - a block that could have been placed lower has nothing left that would keep it from falling,
//   - a block would fit below the place that is tried next.
// Parts of time that share no block any more are solved one by one.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "pack/steps.h"

namespace ebbtide::pack {

// A placement is one evaluation, and another for every so many looks at blocks and sections that it took.
inline constexpr std::int64_t kLooksPerEvaluation = 4096;

// Of all searches of a packing together.
struct PackLimits {
  std::int64_t evaluations = 0;  // that are left
  Deadline deadline;
  std::function<bool()> cancelled;  // empty: it cannot be
  std::int64_t placements = 0;      // so far: that is asked on every so many
  bool expired = false;             // the deadline has passed, or it was cancelled

  bool Over() const { return expired || evaluations <= 0; }
};

class PackSearch {
 public:
  // The search goes one call deeper with every block: no more than this may be placed by one.
  static constexpr std::size_t kMostBlocks = 1500;

  // `order` names the blocks to place, those to try first in front; `offsets` has the places of those that are in the
  // way, and kUnplaced for all others. With `infer`, a placement costs more and fewer are needed.
  PackSearch(const Blocks& blocks, std::span<const int> order, std::span<const Bytes> offsets, Bytes capacity,
             bool infer);

  // Whether all were placed, with about `evaluations` at most, which `limits` pays for.
  bool Run(std::int64_t evaluations, PackLimits& limits);
  // Of the block at that place of `order`, after a Run that placed all.
  Bytes offset(std::size_t rank) const { return offset_[rank]; }

 private:
  // Blocks are known here by their rank in `order`; vectors are by rank unless they say otherwise.
  struct Span {
    Bytes offset, top;
  };

  bool SolveParts(const std::vector<int>& ranks, int from, int to, Bytes offset, int last);
  bool SolvePart(const std::vector<int>& ranks, int from, int to, Bytes offset, int last);
  bool FindLowest(const std::vector<int>& ranks, Bytes offset, int last);
  bool Infer(int from, int to);
  bool HasRoom(int from, int to);
  bool Place(int rank);
  bool IsPassed(int rank, Bytes offset, int last) const {
    return floor_[U(rank)] < offset || (floor_[U(rank)] == offset && rank < last);
  }
  bool HasCompany(int rank) const;
  void UndoTo(std::size_t floors, std::size_t placements);
  Bytes Fit(int rank, Bytes from) const;
  Bytes FixedAbove(int section, Bytes offset) const;
  bool FitsFirst(int section, int rank) const {
    return !placed_[U(rank)] &&
           lowest_[U(rank)] + total_[U(section)] + FixedAbove(section, lowest_[U(rank)]) <= capacity_;
  }
  bool Spend();
  static std::size_t U(int index) { return static_cast<std::size_t>(index); }

  const Bytes capacity_;
  const bool infer_;
  std::vector<Block> blocks_;
  std::vector<std::vector<int>> company_;  // those whose lives meet its own
  std::vector<int> equal_before_;          // an equal block of lower rank; -1: none
  std::vector<std::vector<Span>> fixed_;   // places that are taken during its life, merged, from low to high
  std::vector<Bytes> floor_;               // the lowest place above all that was placed and is in its company
  std::vector<Bytes> lowest_;              // and above what must come below it; of the present branch
  std::vector<Bytes> offset_;
  std::vector<char> placed_;

  std::vector<std::vector<int>> members_;         // by section: those that live in it
  std::vector<std::vector<Span>> fixed_members_;  // by section: places that are taken, from low to high
  std::vector<Bytes> total_;                      // by section: bytes that are not placed yet
  std::vector<int> witness_;                      // by section: one that fitted first when last asked

  std::vector<std::pair<int, Bytes>> old_floors_;  // to undo: rank and the floor it had
  std::vector<int> placements_;                    // to undo
  std::int64_t left_ = 0;                          // evaluations of this run
  mutable std::int64_t looks_ = 0;                 // not paid for yet
  PackLimits* limits_ = nullptr;
};

}  // namespace ebbtide::pack
