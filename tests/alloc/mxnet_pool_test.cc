// MXNet's pools: rounding of both types, reuse by size alone, and the reserve.
#include "alloc/mxnet_pool.h"

#include <gtest/gtest.h>

namespace ebbtide::alloc {
namespace {

constexpr StreamId kStream(0);

TEST(MxnetPoolTest, NaiveRoundsToPagesAndLargeOnesToTwoMiB) {
  DeviceMemory device;
  const MxnetPoolAllocator pool({}, device);
  EXPECT_EQ(pool.Rounded(1), 4096);
  EXPECT_EQ(pool.Rounded(4096), 4096);
  EXPECT_EQ(pool.Rounded(4097), 8192);
  EXPECT_EQ(pool.Rounded(2 * kMiB), 2 * kMiB);
  EXPECT_EQ(pool.Rounded(2 * kMiB + 1), 4 * kMiB);
}

TEST(MxnetPoolTest, RoundHasPowersOfTwoUpToTheCutoff) {
  DeviceMemory device;
  const MxnetPoolAllocator pool({.type = MxnetPoolOptions::Type::kRound}, device);
  EXPECT_EQ(pool.Rounded(1), 4096);
  EXPECT_EQ(pool.Rounded(4097), 8192);
  EXPECT_EQ(pool.Rounded(9 * kMiB), 16 * kMiB);
  EXPECT_EQ(pool.Rounded(16 * kMiB + 1), 32 * kMiB);
  EXPECT_EQ(pool.Rounded(33 * kMiB), 48 * kMiB);
}

TEST(MxnetPoolTest, OnlyABlockOfTheSameSizeIsUsedAgain) {
  DeviceMemory device;
  MxnetPoolAllocator pool({}, device);
  const Block block = *pool.Allocate(10 * kMiB, kStream);
  pool.Free(block.id);
  EXPECT_EQ(pool.Allocate(9 * kMiB, kStream)->bytes, 10 * kMiB);  // rounds to the same size
  EXPECT_EQ(pool.usage().reserved, 10 * kMiB);
  EXPECT_EQ(pool.Allocate(6 * kMiB, kStream)->bytes, 6 * kMiB);
  EXPECT_EQ(pool.usage().reserved, 16 * kMiB);
}

TEST(MxnetPoolTest, TheReserveMakesItGiveBackWhatWaits) {
  DeviceMemory device({.total = 100 * kMiB, .taken = 0});
  MxnetPoolAllocator pool({}, device);
  const Block waiting = *pool.Allocate(40 * kMiB, kStream);
  pool.Free(waiting.id);
  ASSERT_TRUE(pool.Allocate(56 * kMiB, kStream));  // 100 - 40 - 56 = 4 MiB are less than 5 %
  EXPECT_EQ(pool.usage().reserved, 56 * kMiB);
  EXPECT_EQ(pool.usage().device_frees, 1);
  EXPECT_FALSE(pool.Allocate(46 * kMiB, kStream));
  EXPECT_EQ(pool.usage().out_of_memory, 1);
}

}  // namespace
}  // namespace ebbtide::alloc
