// What an observer is told of the device: every segment and page, where it lies, and when it goes.
#include "alloc/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alloc/make.h"

namespace ebbtide::alloc {
namespace {

using ::testing::ElementsAre;

struct Notes : Observer {
  void OnTake(const DeviceRange& range) override {
    sizes.push_back(range.bytes);
    ranges.push_back(range);
  }
  void OnGive(const DeviceRange& range) override {
    sizes.push_back(-range.bytes);
    ranges.push_back(range);
  }
  std::vector<Bytes> sizes;  // negative: given back
  std::vector<DeviceRange> ranges;
};

struct Fixture {
  explicit Fixture(const std::string& options) {
    allocator = MakeAllocator(*ChooseAllocator("pytorch", options), device, streams);
    allocator->Observe(&notes);
  }
  Block Allocate(Bytes bytes) { return *allocator->Allocate(bytes, StreamId(0)); }

  DeviceMemory device{{.total = 64 * kMiB}};
  Streams streams;
  std::unique_ptr<Allocator> allocator;
  Notes notes;
};

TEST(ObserverTest, SegmentsHaveTheAddressesOfTheirBlocks) {
  Fixture test("");
  const Block small = test.Allocate(512);        // of a segment of 2 MiB
  const Block large = test.Allocate(12 * kMiB);  // of its own
  EXPECT_THAT(test.notes.sizes, ElementsAre(2 * kMiB, 12 * kMiB));
  EXPECT_EQ(test.notes.ranges[0].address, small.address);
  EXPECT_TRUE(test.notes.ranges[0].small);
  EXPECT_EQ(test.notes.ranges[1].address, large.address);
  EXPECT_FALSE(test.notes.ranges[1].small || test.notes.ranges[1].pages);
  test.allocator->Free(large.id);
  EXPECT_EQ(test.notes.sizes.size(), 2U);  // it is kept
  // 60 MiB are more than the 64 - 2 - 12 that are free, so the cached segment goes first.
  test.Allocate(60 * kMiB);
  EXPECT_THAT(test.notes.sizes, ElementsAre(2 * kMiB, 12 * kMiB, -12 * kMiB, 60 * kMiB));
  EXPECT_EQ(test.notes.ranges[2].address, large.address);
}

TEST(ObserverTest, PagesOfExpandableSegmentsFollowEachOther) {
  Fixture test("expandable_segments:True");
  const Block first = test.Allocate(20 * kMiB);
  const Block second = test.Allocate(20 * kMiB);
  EXPECT_THAT(test.notes.sizes, ElementsAre(20 * kMiB, 20 * kMiB));
  EXPECT_TRUE(test.notes.ranges[1].pages);
  EXPECT_EQ(test.notes.ranges[0].address, first.address);
  EXPECT_EQ(test.notes.ranges[1].address, first.address + 20 * kMiB);
  test.allocator->Free(second.id);
  test.allocator->EmptyCache();
  EXPECT_THAT(test.notes.sizes, ElementsAre(20 * kMiB, 20 * kMiB, -20 * kMiB));
  EXPECT_EQ(test.notes.ranges[2].address, second.address);
}

TEST(ObserverTest, CopiesAreNotObserved) {
  Fixture test("");
  DeviceMemory device = test.device;
  Streams streams = test.streams;
  const auto copy = test.allocator->CloneOnto(device, streams);
  ASSERT_TRUE(copy->Allocate(512, StreamId(0)));
  EXPECT_TRUE(test.notes.sizes.empty());
}

}  // namespace
}  // namespace ebbtide::alloc
