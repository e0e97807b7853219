// The other models, the device under them, and the decorators.
#include <gtest/gtest.h>

#include "alloc/cuda_malloc_async.h"
#include "alloc/limiting.h"
#include "alloc/make.h"
#include "alloc/no_fragmentation.h"
#include "alloc/statistics.h"

namespace ebbtide::alloc {
namespace {

constexpr StreamId kFirst{0}, kSecond{1};

TEST(DeviceMemory, CountsAndPlaces) {
  DeviceMemory device({.total = 100 * kMiB, .taken = 10 * kMiB});
  EXPECT_EQ(device.capacity(), 90 * kMiB);
  const Address a = *device.Allocate(3 * kMiB);
  EXPECT_EQ(device.used(), 4 * kMiB);  // granules of 2 MiB
  const Address b = *device.Allocate(50 * kMiB);
  EXPECT_EQ(b + 50 * kMiB, a);
  EXPECT_FALSE(device.Allocate(40 * kMiB));
  device.Free(b);
  device.ExpectPlacement(20 * kMiB, Address{1} << 40);
  EXPECT_EQ(device.Allocate(20 * kMiB), Address{1} << 40);
  EXPECT_FALSE(device.Place(a + 100, 100));
  EXPECT_TRUE(device.Place(Address{1} << 41, 60 * kMiB));
  EXPECT_FALSE(device.Take(7 * kMiB));  // 4 + 20 + 60 of 90
  EXPECT_TRUE(device.Take(6 * kMiB));
}

TEST(CudaMallocAsync, TakesFromOtherStreamsWhatTheyFreed) {
  DeviceMemory device;
  Streams streams;
  CudaMallocAsyncAllocator allocator({}, device, streams);
  const Block a = *allocator.Allocate(20 * kMiB, kFirst);
  EXPECT_EQ(allocator.usage().reserved, 32 * kMiB);
  streams.Submit(kFirst);
  allocator.Free(a.id);
  const Block b = *allocator.Allocate(20 * kMiB, kSecond);  // after a wait that the driver inserts
  EXPECT_EQ(b.address, a.address);
  EXPECT_EQ(allocator.inserted_waits(), 1);
  EXPECT_EQ(allocator.usage().reserved, 32 * kMiB);
  allocator.Free(b.id);
  allocator.EmptyCache();
  EXPECT_EQ(device.used(), 0);
}

TEST(NoFragmentation, HoldsWhatIsInUse) {
  DeviceMemory device({.total = 10 * kMiB});
  Streams streams;
  NoFragmentationAllocator allocator(device, streams);
  const Block a = *allocator.Allocate(6 * kMiB, kFirst);
  EXPECT_FALSE(allocator.Allocate(5 * kMiB, kFirst));
  allocator.RecordStream(a.id, kSecond);
  streams.Submit(kSecond);
  allocator.Free(a.id);
  EXPECT_EQ(device.used(), 6 * kMiB);                 // the second stream still uses it
  EXPECT_TRUE(allocator.Allocate(5 * kMiB, kFirst));  // for want of memory the host waits
  EXPECT_EQ(device.used(), 5 * kMiB);
  EXPECT_EQ(streams.host_waits(), 1);
}

TEST(Decorators, LimitAndCount) {
  DeviceMemory device;
  Streams streams;
  auto counted = std::make_unique<StatisticsAllocator>(MakeAllocator({}, device, streams), true);
  const StatisticsAllocator& statistics = *counted;
  LimitingAllocator allocator(std::move(counted), 10 * kMiB);
  const Block a = *allocator.Allocate(8 * kMiB, kFirst);
  EXPECT_FALSE(allocator.Allocate(3 * kMiB, kFirst));
  EXPECT_EQ(allocator.refused(), 1);
  EXPECT_EQ(allocator.usage().allocated, 8 * kMiB);
  allocator.Free(a.id);
  EXPECT_TRUE(allocator.Allocate(1000, kFirst));
  const auto& thousand = statistics.classes()[10];  // 512 to 1023
  EXPECT_EQ(thousand.requests, 1);
  EXPECT_EQ(thousand.rounding, 24);
  ASSERT_EQ(statistics.series().size(), 3u);
  EXPECT_EQ(statistics.series()[1].allocated, 0);
  EXPECT_EQ(statistics.series()[2].reserved, 22 * kMiB);
}

}  // namespace
}  // namespace ebbtide::alloc
