// Free chunks of one set by size. Sizes below 1 MiB have a bin each, in steps of 512 bytes, and bits tell which bins
// hold a chunk: finding, adding and removing one touches a few words however many there are. Larger ones are ordered
// by size, then by address. Of chunks of one size below 1 MiB the last one added is found.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "alloc/free_set.h"
#include "tide/chunks.h"

namespace ebbtide::tide {

class TideBins {
 public:
  using Index = TideChunks::Index;
  static constexpr Bytes kStep = 512;

  void Add(TideChunks& chunks, Index index);
  void Remove(TideChunks& chunks, Index index);
  bool empty() const { return used_ == 0 && large_.empty(); }

  // The smallest chunk of at least `size` bytes; kNone where there is none.
  Index Find(Bytes size) const;
  // The chunk behind it in the order of sizes; kNone behind the last.
  Index After(const TideChunks& chunks, Index index) const;
  // The largest chunk; kNone where there is none.
  Index Last() const;

 private:
  static constexpr std::size_t kBins = 2048, kWord = 64;

  Index NextBin(std::size_t bin) const;  // the first chunk of that bin or of one behind it

  std::vector<Index> bins_;  // by size; empty until one is needed
  std::array<std::uint64_t, kBins / kWord> bits_{};
  std::uint64_t used_ = 0;  // which words of bits_ are not zero
  alloc::FreeSet large_;
};

}  // namespace ebbtide::tide
