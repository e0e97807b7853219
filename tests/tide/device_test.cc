// The tide allocator and a device that refuses: what was begun is undone, whichever call fails; and many threads on one
// allocator.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "tests/tide/pages.h"

namespace ebbtide::tide {
namespace {

const StreamId kA(0), kB(1);

// Pages without memory between free ones: 4 MiB free, 4 without, 4 free, 4 without, so that 16 MiB take two pieces from
// the device.
struct Holes {
  PagesDevice device{256 * kMiB};
  TideAllocator tide{device};
  std::vector<Block> kept;

  Holes() {
    std::vector<Block> all;
    for (int i = 0; i < 5; ++i) all.push_back(*tide.Allocate(4 * kMiB, kA));
    // What is given back is finished; what is made free afterwards is not.
    tide.Free(all[1].id);
    tide.Free(all[3].id);
    tide.EmptyCache();
    device.Submit(kA);
    tide.Free(all[0].id);
    tide.Free(all[2].id);
    kept.push_back(all[4]);
  }
};

TEST(TideDevice, ARefusalHalfwayIsUndone) {
  for (int call = 0; call < 2; ++call) {
    SCOPED_TRACE(testing::Message() << "call " << call);
    Holes holes;
    const std::set<Address> before = holes.device.pages();
    const TideAllocator::Statistics counted = holes.tide.statistics();
    // Everything from this call on is refused, so the request fails.
    holes.device.RefuseFrom(call);
    EXPECT_FALSE(holes.tide.Allocate(16 * kMiB, kB));
    EXPECT_EQ(holes.device.pages().size(),
              before.size() - (holes.tide.statistics().given_back - counted.given_back) / PagesDevice::kPage);
    EXPECT_EQ(holes.tide.statistics().reserved, holes.device.used());
    EXPECT_EQ(holes.tide.statistics().allocated, counted.allocated);
    EXPECT_EQ(holes.tide.statistics().out_of_memory, 1);
    EXPECT_TRUE(holes.tide.IsValid());
    // And the allocator goes on as if nothing had been.
    holes.device.RefuseFrom(-1);
    EXPECT_TRUE(holes.tide.Allocate(16 * kMiB, kB));
    EXPECT_TRUE(holes.tide.IsValid());
    EXPECT_EQ(holes.tide.statistics().reserved, holes.device.used());
  }
}

// One refusal is overcome: what is free is given back, and the request is met.
TEST(TideDevice, OneRefusalIsOvercome) {
  for (int call = 0; call < 2; ++call) {
    Holes holes;
    holes.device.RefuseOnly(call);
    EXPECT_TRUE(holes.tide.Allocate(16 * kMiB, kB));
    EXPECT_TRUE(holes.tide.IsValid());
    EXPECT_EQ(holes.tide.statistics().reserved, holes.device.used());
  }
}

// Random programs in which one call of the device is refused, whichever: blocks that are there stay there, nothing
// leaks.
TEST(TideDevice, AnyCallMayFail) {
  std::int64_t failed = 0;
  for (int call = 0; call < 60; ++call) {
    SCOPED_TRACE(testing::Message() << "call " << call);
    std::mt19937_64 random(static_cast<std::uint64_t>(call % 7));
    PagesDevice device(96 * kMiB);
    TideAllocator tide(device);
    std::map<BlockId, Block> held;
    if (call % 2 == 0) {
      device.RefuseOnly(call / 2);
    } else {
      device.RefuseFrom(call / 2);
    }
    for (int i = 0; i < 300; ++i) {
      if (i == 200) device.RefuseFrom(-1);
      const StreamId stream(random() % 4);
      device.Submit(stream);
      if (random() % 8 == 0) device.Finish(stream);
      if (random() % 3 != 0 || held.empty()) {
        const auto got =
            tide.Allocate(static_cast<Bytes>(1 + random() % (random() % 2 ? 12 * kMiB : 64 * kKiB)), stream);
        failed += !got;
        if (got) held.emplace(got->id, *got);
      } else {
        const auto one = std::next(held.begin(), static_cast<std::ptrdiff_t>(random() % held.size()));
        tide.Free(one->first);
        held.erase(one);
      }
      ASSERT_EQ(tide.statistics().reserved, device.used());
      for (const auto& [id, block] : held) {
        for (Address page = block.address / PagesDevice::kPage * PagesDevice::kPage;
             page < block.address + static_cast<Address>(block.bytes); page += PagesDevice::kPage) {
          ASSERT_TRUE(device.pages().contains(page)) << "a block without memory";
        }
      }
      ASSERT_TRUE(tide.IsValid());
    }
  }
  EXPECT_GT(failed, 100);
}

TEST(TideDevice, TheHostWaitsOnlyBeforeARequestWouldFail) {
  PagesDevice device(32 * kMiB);
  TideAllocator tide(device);
  const Block first = *tide.Allocate(8 * kMiB, kA), middle = *tide.Allocate(8 * kMiB, kA),
              last = *tide.Allocate(8 * kMiB, kA);
  device.Submit(kA);
  tide.Free(first.id);
  tide.Free(last.id);
  EXPECT_EQ(device.host_waits, 0);
  // 8 left, 8 and 8 free in pieces that are not finished: 24 are to be had when they are.
  EXPECT_TRUE(tide.Allocate(24 * kMiB, kB));
  EXPECT_EQ(device.host_waits, 1);
  EXPECT_EQ(tide.statistics().host_waits, 1);
  EXPECT_EQ(device.used(), 32 * kMiB);
  tide.Free(middle.id);
  EXPECT_TRUE(tide.IsValid());
}

// Threads with streams of their own and of each other: every block is one thread's alone while it has it.
TEST(TideDevice, ManyThreadsOnOneAllocator) {
  constexpr std::size_t kThreads = 6;
  PagesDevice device(512 * kMiB);
  TideAllocator tide(device);
  ASSERT_TRUE(tide.SetQuota(JobId(0), {.guaranteed = 64 * kMiB, .limit = 256 * kMiB}));
  std::atomic<std::int64_t> wrong = 0;
  constexpr std::size_t kSteps = std::size_t{1} << 16;
  std::vector<std::atomic<std::int32_t>> owners(
      kSteps);  // by 512 bytes, wrapped around: a few false meetings are let be
  const auto work = [&](std::size_t thread) {
    std::mt19937_64 random(thread);
    std::vector<Block> held;
    for (int i = 0; i < 3000; ++i) {
      const StreamId stream(random() % 4 == 0 ? random() % kThreads : thread);
      device.Submit(stream);
      if (random() % 16 == 0) device.Finish(stream);
      if (random() % 2 == 0 || held.empty()) {
        const Bytes bytes = static_cast<Bytes>(1 + random() % (random() % 4 ? 4096 : 2 * kMiB));
        const auto got = tide.Allocate(bytes, stream, JobId(thread % 3));
        if (!got) continue;
        held.push_back(*got);
        if (got->bytes <= 4096) {
          std::int32_t nobody = 0;
          auto& owner = owners[(got->address / 512) % kSteps];
          if (!owner.compare_exchange_strong(nobody, static_cast<std::int32_t>(thread + 1))) ++wrong;
        }
      } else {
        const std::size_t which = random() % held.size();
        if (held[which].bytes <= 4096) owners[(held[which].address / 512) % kSteps] = 0;
        if (random() % 4 == 0) tide.RecordStream(held[which].id, StreamId(random() % kThreads));
        tide.Free(held[which].id);
        held[which] = held.back();
        held.pop_back();
      }
      if (i % 500 == 0) tide.EmptyCache();
      if (i % 100 == 0) (void)tide.statistics();
    }
    for (const Block& block : held) {
      if (block.bytes <= 4096) owners[(block.address / 512) % kSteps] = 0;
      tide.Free(block.id);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(tide.IsValid());
  for (std::size_t i = 0; i < kThreads; ++i) device.Finish(StreamId(i));
  tide.EmptyCache();
  EXPECT_EQ(device.used(), 0);
  EXPECT_EQ(tide.statistics().allocated, 0);
}

}  // namespace
}  // namespace ebbtide::tide
