// Static packing: addresses for things whose sizes and lives are known beforehand, in as little memory as possible.
// Two that live at the same time may not share a byte. Finding the least height is NP-hard; the live peak bounds it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "base/units.h"

namespace ebbtide::pack {

// Lives during the steps [from, to), half-open.
struct PackItem {
  std::int64_t from = 0;
  std::int64_t to = 0;
  Bytes size = 0;
  bool operator==(const PackItem&) const = default;
};

struct PackOptions {
  Bytes capacity = 0;      // good enough: the search ends at this height. 0: at the lower bound
  Bytes alignment = 1;     // of every offset; sizes count as rounded up to it
  std::uint64_t seed = 0;  // of the orders that are tried
  std::int64_t evaluations =
      30'000;                // of the search after the first passes: placements, large ones counted several times
  bool within_only = false;  // a packing above the capacity is of no use: the search for one within it is short
  Deadline deadline = {};    // with one, the result may depend on the clock: it is the best by then
  // Asked often; true: nobody wants the packing any more, and what is returned means nothing. Empty: never.
  std::function<bool()> cancelled = {};
};

struct Packing {
  std::vector<Bytes> offsets;    // of each item
  Bytes height = 0;              // one past the highest byte
  Bytes lower_bound = 0;         // the live peak of the rounded sizes: no packing is lower
  std::int64_t evaluations = 0;  // what the search took
  bool stopped_early = false;    // by the time limit
};

// The first item that Pack cannot take: an empty interval, a negative size; or sizes whose sum exceeds 62 bits.
Status CheckPackItems(std::span<const PackItem> items, Bytes alignment = 1);

// Of items that pass CheckPackItems. Equal items and options give equal offsets where there is no time limit.
Packing Pack(std::span<const PackItem> items, const PackOptions& options = {});

// The most bytes that live at one step, sizes rounded up to the alignment.
Bytes LivePeak(std::span<const PackItem> items, Bytes alignment = 1);

// Knows nothing of Pack: every pair is looked at. Fails where an item is misplaced, reaches above `capacity`, or shares
// bytes with another during its life.
Status ValidatePacking(std::span<const PackItem> items, std::span<const Bytes> offsets, Bytes capacity,
                       Bytes alignment = 1);

}  // namespace ebbtide::pack
