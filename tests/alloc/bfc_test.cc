// TensorFlow's allocator by its laws: how regions grow, when a chunk is split, which chunk is taken.
#include "alloc/bfc.h"

#include <gtest/gtest.h>

#include <random>

namespace ebbtide::alloc {
namespace {

constexpr StreamId kStream(0);

Block Take(BfcAllocator& bfc, Bytes bytes) {
  const std::optional<Block> block = bfc.Allocate(bytes, kStream);
  EXPECT_TRUE(block.has_value()) << bytes;
  EXPECT_TRUE(bfc.IsValid());
  return block.value_or(Block());
}

TEST(BfcTest, WithoutGrowthOneRegionIsAllThatIsFree) {
  DeviceMemory device({.total = 100 * kMiB, .taken = 30 * kMiB});
  BfcAllocator bfc({}, device);
  Take(bfc, 1);
  EXPECT_EQ(bfc.usage().reserved, 70 * kMiB);
  EXPECT_EQ(bfc.usage().allocated, 256);
  EXPECT_FALSE(bfc.Allocate(70 * kMiB, kStream));
}

// 2, 4 and 8 MiB: each region is twice the last. A request for 40 MiB makes 16 (the next) grow to 64.
TEST(BfcTest, RegionsDouble) {
  DeviceMemory device;
  BfcAllocator bfc({.allow_growth = true}, device);
  Take(bfc, 2 * kMiB);
  EXPECT_EQ(bfc.usage().reserved, 2 * kMiB);
  Take(bfc, 3 * kMiB);
  EXPECT_EQ(bfc.usage().reserved, (2 + 4) * kMiB);
  Take(bfc, 8 * kMiB);
  EXPECT_EQ(bfc.usage().reserved, (2 + 4 + 8) * kMiB);
  Take(bfc, 40 * kMiB);
  EXPECT_EQ(bfc.usage().reserved, (2 + 4 + 8 + 64) * kMiB);
  EXPECT_EQ(bfc.usage().device_allocations, 4);
}

TEST(BfcTest, ALimitCutsTheLastRegion) {
  DeviceMemory device;
  BfcAllocator bfc({.allow_growth = true, .limit = 5 * kMiB}, device);
  Take(bfc, 2 * kMiB);
  Take(bfc, 3 * kMiB);  // 4 MiB would be too much
  EXPECT_EQ(bfc.usage().reserved, 5 * kMiB);
  EXPECT_FALSE(bfc.Allocate(256, kStream));
}

// A region of 16 MiB that the device refuses shrinks by a tenth until it fits: 14.4, 12.96 (of 13 MiB).
TEST(BfcTest, ARefusedRegionShrinks) {
  DeviceMemory device({.total = 27 * kMiB, .taken = 0});
  BfcAllocator bfc({.allow_growth = true, .limit = 20 * kMiB}, device);
  ASSERT_TRUE(device.Take(14 * kMiB));
  Take(bfc, 10 * kMiB);
  EXPECT_LE(bfc.usage().reserved, 13 * kMiB);
  EXPECT_GT(bfc.usage().reserved, 12 * kMiB);
}

TEST(BfcTest, AChunkIsSplitFromTwiceTheRequestOn) {
  DeviceMemory device({.total = 1000 * kMiB, .taken = 0});
  BfcAllocator bfc({.limit = 1000 * kMiB}, device);
  const Block first = Take(bfc, 10 * kMiB);
  const Block wall = Take(bfc, 256);
  bfc.Free(first.id);
  EXPECT_EQ(Take(bfc, 6 * kMiB).bytes, 10 * kMiB);  // 10 < 2 x 6: handed out whole
  EXPECT_EQ(Take(bfc, 6 * kMiB).bytes, 6 * kMiB);   // of the rest
  EXPECT_GT(wall.address, first.address);
}

TEST(BfcTest, AChunkIsSplitWhereMuchWouldBeWasted) {
  DeviceMemory device({.total = 1000 * kMiB, .taken = 0});
  BfcAllocator bfc({.limit = 700 * kMiB}, device);
  EXPECT_EQ(Take(bfc, 500 * kMiB).bytes, 500 * kMiB);  // 700 - 500 is more than 128 MiB
  EXPECT_EQ(Take(bfc, 150 * kMiB).bytes, 200 * kMiB);
}

TEST(BfcTest, NeighboursJoinAndTheSmallestThatFitsIsTaken) {
  DeviceMemory device({.total = 1000 * kMiB, .taken = 0});
  BfcAllocator bfc({}, device);
  std::vector<Block> blocks;
  for (const Bytes size : {4, 1, 8, 1, 3, 1}) blocks.push_back(Take(bfc, size * kMiB));
  bfc.Free(blocks[0].id);
  bfc.Free(blocks[2].id);
  bfc.Free(blocks[4].id);
  EXPECT_EQ(Take(bfc, 4 * kMiB).address, blocks[0].address);  // 3 is too small, 8 larger than 4
  bfc.Free(blocks[3].id);                                     // joins 8 + 1 + 3
  EXPECT_EQ(Take(bfc, 12 * kMiB).address, blocks[2].address);
}

TEST(BfcTest, RandomRequestsKeepItsLaws) {
  std::mt19937_64 random(7);
  for (int run = 0; run < 40; ++run) {
    DeviceMemory device({.total = 256 * kMiB, .taken = 0});
    BfcAllocator bfc({.allow_growth = run % 2 == 0, .limit = (run % 3) * 100 * kMiB}, device);
    std::vector<Block> live;
    for (int i = 0; i < 200; ++i) {
      if (!live.empty() && random() % 5 < 2) {
        const std::size_t which = random() % live.size();
        bfc.Free(live[which].id);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      } else if (const auto block = bfc.Allocate(static_cast<Bytes>(random() % (8 * kMiB)), kStream)) {
        live.push_back(*block);
      }
      ASSERT_TRUE(bfc.IsValid());
      ASSERT_LE(bfc.usage().reserved, device.total());
    }
  }
}

}  // namespace
}  // namespace ebbtide::alloc
