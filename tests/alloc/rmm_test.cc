// The RMM-style pool: whose list serves a request, and how it grows.
#include "alloc/rmm.h"

#include <gtest/gtest.h>

namespace ebbtide::alloc {
namespace {

const StreamId kA(0), kB(1), kC(2);

TEST(Rmm, DoublesAndHalvesDownToTheRequest) {
  DeviceMemory device({.total = 28 * kMiB, .taken = 0});
  RmmAllocator pool(device);
  ASSERT_TRUE(pool.Allocate(8 * kMiB, kA));
  EXPECT_EQ(pool.usage().reserved, 8 * kMiB);
  ASSERT_TRUE(pool.Allocate(2 * kMiB, kA));
  EXPECT_EQ(pool.usage().reserved, 16 * kMiB);
  // 6 of the second 8 are left. 16 more do not fit, 8 do.
  ASSERT_TRUE(pool.Allocate(8 * kMiB, kA));
  EXPECT_EQ(pool.usage().reserved, 24 * kMiB);
  EXPECT_FALSE(pool.Allocate(8 * kMiB, kA));
}

TEST(Rmm, TakesFromTheFirstOtherListThatHasEnough) {
  DeviceMemory device;
  RmmAllocator pool(device);
  const auto first = pool.Allocate(8 * kMiB, kA), second = pool.Allocate(8 * kMiB, kB);
  ASSERT_TRUE(first && second);
  pool.Free(first->id);
  pool.Free(second->id);
  // B has its own; C has none and takes from A, the first, whose list keeps the rest.
  EXPECT_EQ(pool.Allocate(8 * kMiB, kB)->address, second->address);
  EXPECT_EQ(pool.waits(), 0);
  EXPECT_EQ(pool.Allocate(6 * kMiB, kC)->address, first->address);
  EXPECT_EQ(pool.waits(), 1);
  EXPECT_EQ(pool.Allocate(2 * kMiB, kA)->address, first->address + 6 * static_cast<Address>(kMiB));
  EXPECT_EQ(pool.waits(), 1);
}

// 4 MiB of each of A and B, side by side: only together are they 8.
TEST(Rmm, MergesTheListsOfOthers) {
  DeviceMemory device;
  RmmAllocator pool(device);
  const auto whole = pool.Allocate(8 * kMiB, kA);
  pool.Free(whole->id);
  const auto low = pool.Allocate(4 * kMiB, kA), high = pool.Allocate(4 * kMiB, kB);
  pool.Free(low->id);
  pool.Free(high->id);
  EXPECT_EQ(pool.Allocate(8 * kMiB, kC)->address, whole->address);
  EXPECT_EQ(pool.usage().reserved, 8 * kMiB);
}

}  // namespace
}  // namespace ebbtide::alloc
