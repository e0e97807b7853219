// Packings by hand, and laws that hold for all of them.
#include "pack/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <numeric>

#include "pack/instance_csv.h"
#include "pack/steps.h"
#include "tests/support/folders.h"

namespace ebbtide::pack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Packing, ThreeThatNeedAnOrder) {
  // Steps:  0 1 2 3      4 + 8 live at step 0, 8 + 4 at step 2: the peak is 12, and the long one must lie at the edge
  //  a 4    ##           for the others to share the rest.
  //  b 8    #######
  //  c 4        ###
  const std::vector<PackItem> items = {{0, 2, 4}, {0, 4, 8}, {2, 4, 4}};
  const Packing packing = Pack(items);
  EXPECT_EQ(packing.lower_bound, 12);
  EXPECT_EQ(packing.height, 12);
  EXPECT_TRUE(ValidatePacking(items, packing.offsets, 12));
}

TEST(Packing, NothingAndEmptyItems) {
  EXPECT_EQ(Pack({}).height, 0);
  const std::vector<PackItem> items = {{0, 1, 0}, {0, 1, 5}, {0, 1, 0}};
  const Packing packing = Pack(items);
  EXPECT_EQ(packing.height, 5);
  EXPECT_TRUE(ValidatePacking(items, packing.offsets, 5));
}

TEST(Packing, AlignmentRoundsSizes) {
  const std::vector<PackItem> items = {{0, 2, 1}, {0, 2, 513}, {1, 2, 512}};
  const Packing packing = Pack(items, {.alignment = 512});
  // 512 + 1024 + 512.
  EXPECT_EQ(packing.lower_bound, 2048);
  EXPECT_EQ(packing.height, 2048);
  EXPECT_TRUE(ValidatePacking(items, packing.offsets, 2048, 512));
}

// Nested lives, as activations of a training have: the longest-lived first is perfect.
TEST(Packing, TrainingIsNested) {
  std::vector<PackItem> items;
  Bytes sum = 0;
  for (std::int64_t i = 0; i < 3000; ++i) {
    const Bytes size = 1 + i * 7919 % 1000;
    items.push_back({i, 6000 - i, size});
    sum += size;
  }
  const Packing packing = Pack(items);
  EXPECT_EQ(packing.height, sum);
  EXPECT_EQ(packing.evaluations, 0);
}

TEST(Packing, ValidatorFindsEachFault) {
  const std::vector<PackItem> items = {{0, 2, 4}, {1, 3, 4}, {2, 4, 4}};
  const auto check = [&](std::vector<Bytes> offsets, Bytes capacity, Bytes alignment = 1) {
    const Status status = ValidatePacking(items, offsets, capacity, alignment);
    return status ? std::string("valid") : status.error().message;
  };
  EXPECT_EQ(check({0, 4, 0}, 8), "valid");
  EXPECT_EQ(check({0, 3, 8}, 12), "items 0 and 1 share bytes while both live");
  EXPECT_EQ(check({0, 4, 7}, 12), "items 1 and 2 share bytes while both live");
  EXPECT_THAT(check({0, 4, 0}, 7), HasSubstr("item 1: [4, 4 + 4) reaches above 7"));
  EXPECT_THAT(check({0, 4, -1}, 8), HasSubstr("item 2: expected an offset from 0 on"));
  EXPECT_THAT(check({0, 4, 0}, 8, 8), HasSubstr("item 1: expected an offset from 0 on, a multiple of 8"));
  EXPECT_THAT(check({0, 4}, 8), HasSubstr("expected 3 offsets"));
  EXPECT_THAT(check({0, std::numeric_limits<Bytes>::max(), 0}, 8), HasSubstr("reaches above"));
}

TEST(Packing, ItemsThatMakeNoSense) {
  const auto check = [](PackItem item, Bytes alignment = 1) {
    const std::vector<PackItem> items = {{0, 1, 1}, item};
    const Status status = CheckPackItems(items, alignment);
    return status ? std::string("valid") : status.error().message;
  };
  EXPECT_EQ(check({0, 1, 5}), "valid");
  EXPECT_THAT(check({3, 3, 5}), HasSubstr("item 1: expected it to end after it begins"));
  EXPECT_THAT(check({0, 1, -5}), HasSubstr("item 1: size"));
  EXPECT_THAT(check({0, 1, std::numeric_limits<Bytes>::max()}), HasSubstr("62 bits"));
  EXPECT_THAT(check({std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), 1}),
              HasSubstr("64 bits"));
  EXPECT_THAT(check({0, 1, 5}, 0), HasSubstr("alignment"));
}

std::vector<PackItem> RandomItems() {
  return *rc::gen::container<std::vector<PackItem>>(rc::gen::apply(
      [](int from, int life, int size) {
        return PackItem{from, from + life, size};
      },
      rc::gen::inRange(0, 30), rc::gen::inRange(1, 20), rc::gen::inRange(0, 50)));
}

RC_GTEST_PROP(PackingLaws, AreValidAndNotBelowTheBound, ()) {
  const std::vector<PackItem> items = RandomItems();
  const Bytes alignment = *rc::gen::element<Bytes>(1, 3, 8);
  const PackOptions options{.alignment = alignment, .seed = *rc::gen::inRange<std::uint64_t>(0, 5), .evaluations = 500};
  RC_ASSERT(CheckPackItems(items, alignment).has_value());
  const Packing packing = Pack(items, options);
  RC_ASSERT(ValidatePacking(items, packing.offsets, packing.height, alignment).has_value());
  RC_ASSERT(packing.height >= packing.lower_bound);
  RC_ASSERT(packing.lower_bound == LivePeak(items, alignment));
  // The bound by its definition, step by step.
  Bytes peak = 0;
  for (std::int64_t step = 0; step < 50; ++step) {
    Bytes live = 0;
    for (const PackItem& item : items) {
      if (item.from <= step && step < item.to) live += (item.size + alignment - 1) / alignment * alignment;
    }
    peak = std::max(peak, live);
  }
  RC_ASSERT(peak == packing.lower_bound);
  const Packing again = Pack(items, options);
  RC_ASSERT(again.offsets == packing.offsets);
}

// Cut a rectangle at random into items: a packing without waste exists, and a small one is found.
RC_GTEST_PROP(PackingLaws, SmallPuzzlesAreSolved, ()) {
  struct Piece {
    std::int64_t from, to;
    Bytes low, high;
  };
  std::vector<Piece> pieces = {{0, 16, 0, 64}};
  for (int cut = 0; cut < 6; ++cut) {
    const auto which = static_cast<std::size_t>(*rc::gen::inRange<int>(0, static_cast<int>(pieces.size())));
    Piece& piece = pieces[which];
    Piece other = piece;
    if (*rc::gen::arbitrary<bool>() && piece.to - piece.from > 1) {
      piece.to = other.from = *rc::gen::inRange(piece.from + 1, piece.to);
    } else if (piece.high - piece.low > 1) {
      piece.high = other.low = *rc::gen::inRange(piece.low + 1, piece.high);
    } else {
      continue;
    }
    pieces.push_back(other);
  }
  std::vector<PackItem> items;
  for (const Piece& piece : pieces) items.push_back({piece.from, piece.to, piece.high - piece.low});
  RC_ASSERT(Pack(items).height == 64);
}

// The lowest place at which a block meets none of those that are placed: 0 or right above one of them.
Bytes LowestPlace(const Blocks& blocks, const std::vector<Bytes>& offsets, const Block& block) {
  Bytes lowest = std::numeric_limits<Bytes>::max();
  std::vector<Bytes> tops = {0};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] != kUnplaced) tops.push_back(offsets[i] + blocks.all[i].size);
  }
  for (const Bytes at : tops) {
    bool free = true;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const bool apart = offsets[i] >= at + block.size || at >= offsets[i] + blocks.all[i].size;
      if (offsets[i] != kUnplaced && blocks.all[i].Meets(block) && !apart) free = false;
    }
    if (free) lowest = std::min(lowest, at);
  }
  return lowest;
}

RC_GTEST_PROP(PackingLaws, FirstFitTakesTheLowestPlace, ()) {
  const int count = *rc::gen::inRange(1, 400);
  std::vector<PackItem> items;
  for (int i = 0; i < count; ++i) {
    const std::int64_t from = *rc::gen::inRange(0, 60);
    items.push_back({from, from + 1 + *rc::gen::inRange(0, 20), *rc::gen::inRange(1, 9)});
  }
  const Blocks blocks = MakeBlocks(items, 1);
  std::vector<int> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<Bytes> offsets(items.size(), kUnplaced), expected = offsets;
  for (const int i : order)
    expected[static_cast<std::size_t>(i)] = LowestPlace(blocks, expected, blocks.all[static_cast<std::size_t>(i)]);
  // Some are given, the rest is placed: the given must not be moved, and the rest goes beside them.
  const int given = *rc::gen::inRange(0, count);
  std::copy_n(expected.begin(), given, offsets.begin());
  FirstFit(blocks, std::span(order).subspan(static_cast<std::size_t>(given)), offsets);
  RC_ASSERT(offsets == expected);
  // With a limit it ends with the first that would reach above it.
  const Bytes limit = *rc::gen::inRange(1, 40);
  std::size_t fit = 0;
  while (fit < order.size() && expected[fit] + blocks.all[fit].size <= limit) ++fit;
  std::vector<Bytes> within(items.size(), kUnplaced);
  RC_ASSERT(FirstFit(blocks, order, within, {}, limit) == fit);
}

RC_GTEST_PROP(PackingLaws, AShortSearchKeepsTheCapacityOrSaysSo, ()) {
  std::vector<PackItem> items;
  for (int i = 0, count = *rc::gen::inRange(1, 60); i < count; ++i) {
    const std::int64_t from = *rc::gen::inRange(0, 30);
    items.push_back({from, from + 1 + *rc::gen::inRange(0, 10), *rc::gen::inRange(1, 9)});
  }
  const Bytes capacity = LivePeak(items) + *rc::gen::inRange(-2, 10);
  const Packing packing = Pack(items, {.capacity = capacity, .within_only = true});
  RC_ASSERT(ValidatePacking(items, packing.offsets, packing.height).has_value());
  RC_ASSERT(packing.height >= LivePeak(items));
}

TEST(PackCsv, ReadsAndWrites) {
  const auto instance = ParsePackInstance("id,lower,upper,size\nb1,0,3,4\n\"b 2\",3,9,4\n", "x.csv");
  ASSERT_TRUE(instance) << instance.error().message;
  EXPECT_THAT(instance->ids, ElementsAre("b1", "b 2"));
  EXPECT_THAT(instance->items, ElementsAre(PackItem{0, 3, 4}, PackItem{3, 9, 4}));
  const std::vector<Bytes> offsets = {0, 8};
  EXPECT_EQ(PackCsv(*instance, offsets), "id,lower,upper,size,offset\nb1,0,3,4,0\n\"b 2\",3,9,4,8\n");
}

TEST(PackCsv, BadOnesNameTheLine) {
  const auto complaint = [](const std::string& text) {
    const auto instance = ParsePackInstance(text, "x.csv");
    return instance ? std::string("valid") : instance.error().message;
  };
  const std::string header = "id,lower,upper,size\n";
  EXPECT_THAT(complaint(""), HasSubstr("x.csv: "));
  EXPECT_EQ(complaint("id,lower,size\na,0,1\n"),
            "x.csv: line 1: expected a header with the columns id,lower,upper,size");
  EXPECT_EQ(complaint(header), "x.csv: expected at least one row behind the header");
  EXPECT_EQ(complaint(header + "a,0,1,1\na,0,1,1\n"), "x.csv: line 3: id \"a\" is already that of line 2");
  EXPECT_EQ(complaint(header + "a,3,3,1\n"), "x.csv: line 2: expected upper above lower, found 3 and 3");
  EXPECT_THAT(complaint(header + "a,-1,3,1\n"), HasSubstr("x.csv: line 2: expected lower"));
  EXPECT_THAT(complaint(header + "a,0,3,x\n"), HasSubstr("x.csv: line 2: expected size"));
  EXPECT_THAT(complaint(header + "a,0,3,1.5\n"), HasSubstr("x.csv: line 2: expected size"));
  EXPECT_THAT(complaint(header + "a,0,3\n"), HasSubstr("found nothing"));
  EXPECT_THAT(complaint(header + ",0,3,1\n"), HasSubstr("line 2: expected an id"));
  EXPECT_THAT(complaint(header + "a,0,3,9223372036854775807\nb,0,3,1\n"), HasSubstr("exceeds 64 bits"));
  EXPECT_THAT(complaint(header + "a,0,3,9223372036854775807\n"), HasSubstr("62 bits"));
}

// Instances made to be hard; these take a moment each.
TEST(Packing, PublishedInstances) {
  const std::filesystem::path folder = DataFolder() / "packing";
  if (!std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << folder << " is not there; EBBTIDE_DATA names the folder of the data";
  }
  for (const char* name : {"B.1048576.csv", "C.1048576.csv", "G.1048576.csv", "H.1048576.csv", "J.1048576.csv"}) {
    const auto instance = ReadPackInstance((folder / name).string());
    ASSERT_TRUE(instance) << instance.error().message;
    const Packing packing = Pack(instance->items, {.capacity = 1048576, .evaluations = 200'000});
    EXPECT_LE(packing.height, 1048576) << name;
    EXPECT_TRUE(ValidatePacking(instance->items, packing.offsets, packing.height)) << name;
  }
}

}  // namespace
}  // namespace ebbtide::pack
