// PyTorch's allocator model on small cases whose arithmetic is in the test.
#include "alloc/pytorch.h"

#include <gtest/gtest.h>

#include "alloc/pytorch_expandable.h"

namespace ebbtide::alloc {
namespace {

constexpr StreamId kFirst{0}, kSecond{1};

struct Native {
  explicit Native(Bytes capacity = kTooLarge, PytorchOptions options = {})
      : device({.total = capacity}), allocator(options, device, streams) {}
  DeviceMemory device;
  Streams streams;
  PytorchAllocator allocator;
  const Usage& usage() const { return allocator.usage(); }
};

TEST(PytorchAllocator, TakesSegmentsByTheSizeOfTheRequest) {
  Native pytorch;
  EXPECT_EQ(pytorch.allocator.Allocate(1, kFirst)->bytes, 512);
  EXPECT_EQ(pytorch.usage().reserved, 2 * kMiB);  // the small pool's segment
  EXPECT_EQ(pytorch.allocator.Allocate(kMiB + 1, kFirst)->bytes, kMiB + 512);
  EXPECT_EQ(pytorch.usage().reserved, 22 * kMiB);  // and one of 20 MiB
  EXPECT_EQ(pytorch.allocator.Allocate(11 * kMiB, kFirst)->bytes, 11 * kMiB);
  EXPECT_EQ(pytorch.usage().reserved, 22 * kMiB);  // in what the second left: 19 MiB - 512
  pytorch.allocator.Allocate(11 * kMiB, kFirst);
  EXPECT_EQ(pytorch.usage().reserved, 34 * kMiB);  // 11 MiB rounded up to 12
  EXPECT_EQ(pytorch.usage().device_allocations, 3);
}

TEST(PytorchAllocator, KeepsARestOfAMebibyteInALargeBlock) {
  Native pytorch;
  const Block block = *pytorch.allocator.Allocate(11 * kMiB, kFirst);
  EXPECT_EQ(block.bytes, 12 * kMiB);  // 1 MiB is not more than 1 MiB: no split
  EXPECT_EQ(pytorch.usage().allocated, 12 * kMiB);
}

TEST(PytorchAllocator, JoinsNeighboursAndUsesThemAgain) {
  Native pytorch;
  const Block a = *pytorch.allocator.Allocate(6 * kMiB, kFirst);
  const Block b = *pytorch.allocator.Allocate(6 * kMiB, kFirst);
  EXPECT_EQ(b.address, a.address + 6 * kMiB);
  pytorch.allocator.Free(a.id);
  pytorch.allocator.Free(b.id);
  const Block all = *pytorch.allocator.Allocate(20 * kMiB, kFirst);
  EXPECT_EQ(all.address, a.address);
  EXPECT_EQ(pytorch.usage().reserved_peak, 20 * kMiB);
}

TEST(PytorchAllocator, StreamsDoNotShareBlocks) {
  Native pytorch;
  pytorch.allocator.Free(pytorch.allocator.Allocate(20 * kMiB, kFirst)->id);
  pytorch.allocator.Allocate(20 * kMiB, kSecond);
  EXPECT_EQ(pytorch.usage().reserved, 40 * kMiB);
}

TEST(PytorchAllocator, GivesBackWhatIsUnusedWhenTheDeviceRunsOut) {
  Native pytorch(50 * kMiB);
  pytorch.allocator.Free(pytorch.allocator.Allocate(30 * kMiB, kFirst)->id);
  EXPECT_TRUE(pytorch.allocator.Allocate(40 * kMiB, kSecond));  // 30 + 40 > 50: the first segment goes
  EXPECT_EQ(pytorch.usage().device_frees, 1);
  EXPECT_EQ(pytorch.usage().reserved, 40 * kMiB);
  EXPECT_FALSE(pytorch.allocator.Allocate(12 * kMiB, kFirst));
  EXPECT_EQ(pytorch.usage().out_of_memory, 1);
}

TEST(PytorchAllocator, ABlockThatAnotherStreamUsesWaitsForIt) {
  Native pytorch;
  const Block block = *pytorch.allocator.Allocate(20 * kMiB, kFirst);
  pytorch.allocator.RecordStream(block.id, kSecond);
  pytorch.streams.Submit(kSecond);
  pytorch.allocator.Free(block.id);
  EXPECT_NE(pytorch.allocator.Allocate(20 * kMiB, kFirst)->address, block.address);
  pytorch.streams.FinishAll();
  EXPECT_EQ(pytorch.allocator.Allocate(20 * kMiB, kFirst)->address, block.address);
  EXPECT_EQ(pytorch.usage().reserved, 40 * kMiB);
}

TEST(PytorchAllocator, TheHostWaitsForEventsOnlyWhenTheDeviceRunsOut) {
  Native pytorch(30 * kMiB);
  const Block block = *pytorch.allocator.Allocate(20 * kMiB, kFirst);
  pytorch.allocator.RecordStream(block.id, kSecond);
  pytorch.streams.Submit(kSecond);
  pytorch.allocator.Free(block.id);
  EXPECT_EQ(pytorch.streams.host_waits(), 0);
  EXPECT_TRUE(pytorch.allocator.Allocate(20 * kMiB, kFirst));
  EXPECT_EQ(pytorch.streams.host_waits(), 1);
}

TEST(PytorchAllocator, OldSegmentsGoFirst) {
  Native pytorch;
  const Block a = *pytorch.allocator.Allocate(40 * kMiB, kFirst);
  const Block b = *pytorch.allocator.Allocate(40 * kMiB, kFirst);
  ASSERT_LT(b.address, a.address);
  pytorch.allocator.Free(a.id);
  pytorch.allocator.Free(b.id);
  EXPECT_EQ(pytorch.allocator.Allocate(40 * kMiB, kFirst)->address, a.address);
}

TEST(PytorchAllocator, LargeBlocksAreNotSplitAboveTheLimit) {
  PytorchOptions options;
  options.max_split_size = 30 * kMiB;
  Native pytorch(kTooLarge, options);
  pytorch.allocator.Free(pytorch.allocator.Allocate(60 * kMiB, kFirst)->id);
  pytorch.allocator.Allocate(20 * kMiB, kFirst);  // below the limit: not from the 60
  EXPECT_EQ(pytorch.usage().reserved, 80 * kMiB);
  pytorch.allocator.Allocate(40 * kMiB, kFirst);  // 60 is 20 more than 40: too much
  EXPECT_EQ(pytorch.usage().reserved, 120 * kMiB);
  EXPECT_EQ(pytorch.allocator.Allocate(42 * kMiB, kFirst)->bytes, 60 * kMiB);  // 18 more
}

TEST(PytorchAllocator, GarbageIsCollectedByAge) {
  PytorchOptions options;
  options.garbage_collection_threshold = 0.5;
  options.per_process_memory_fraction = 0.999999;
  Native pytorch(100 * kMiB, options);
  pytorch.allocator.Free(pytorch.allocator.Allocate(60 * kMiB, kFirst)->id);
  // 60 MiB are above half of 100. The block is as old as the average of all one blocks, and goes.
  pytorch.allocator.Allocate(20 * kMiB, kSecond);
  EXPECT_EQ(pytorch.usage().reserved, 20 * kMiB);
  EXPECT_EQ(pytorch.usage().device_frees, 1);
}

TEST(PytorchAllocator, ACopyGoesItsOwnWay) {
  Native pytorch(60 * kMiB);
  const Block block = *pytorch.allocator.Allocate(20 * kMiB, kFirst);
  DeviceMemory device = pytorch.device;
  Streams streams = pytorch.streams;
  const std::unique_ptr<Allocator> copy = pytorch.allocator.CloneOnto(device, streams);
  copy->Free(block.id);
  EXPECT_EQ(copy->Allocate(20 * kMiB, kFirst)->address, block.address);
  EXPECT_TRUE(copy->Allocate(40 * kMiB, kFirst));
  EXPECT_EQ(device.used(), 60 * kMiB);
  EXPECT_EQ(pytorch.device.used(), 20 * kMiB);
  EXPECT_EQ(pytorch.usage().allocated, 20 * kMiB);
}

TEST(PytorchExpandableAllocator, MapsPagesWhereTheyAreNeeded) {
  DeviceMemory device({.total = 400 * kMiB});
  Streams streams;
  PytorchExpandableAllocator allocator({}, device, streams);
  const Block a = *allocator.Allocate(100 * kMiB, kFirst);
  const Block b = *allocator.Allocate(50 * kMiB, kFirst);
  EXPECT_EQ(b.address, a.address + 100 * kMiB);
  EXPECT_EQ(allocator.usage().reserved, 160 * kMiB);  // pages of 20 MiB: 150 become 160
  allocator.Free(b.id);
  const Block c = *allocator.Allocate(70 * kMiB, kFirst);
  EXPECT_EQ(c.address, b.address);  // the free 60 MiB grow by a page
  EXPECT_EQ(allocator.usage().reserved, 180 * kMiB);
  allocator.Free(a.id);
  EXPECT_TRUE(allocator.Allocate(300 * kMiB, kSecond));  // the first 100 MiB are unmapped and 10 at the end stay
  EXPECT_EQ(allocator.usage().reserved, 380 * kMiB);
  EXPECT_FALSE(allocator.Allocate(30 * kMiB, kSecond));
}

}  // namespace
}  // namespace ebbtide::alloc
