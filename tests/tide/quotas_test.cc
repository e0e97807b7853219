// Quotas of the tide allocator: what is guaranteed is always to be had, a burst takes only what nobody is promised.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/tide/pages.h"

namespace ebbtide::tide {
namespace {

const StreamId kA(0), kB(1);
const JobId kFirst(0), kSecond(1), kThird(2);

TEST(TideQuotas, AGuaranteeIsKeptWhileAnotherBursts) {
  PagesDevice device(100 * kMiB);
  TideAllocator tide(device);
  ASSERT_TRUE(tide.SetQuota(kFirst, {.guaranteed = 40 * kMiB}));
  // 100 less the 40 that are promised: 60, and not a page more.
  EXPECT_TRUE(tide.Allocate(60 * kMiB, kB, kSecond));
  EXPECT_FALSE(tide.Allocate(2 * kMiB, kB, kSecond));
  EXPECT_TRUE(tide.Allocate(40 * kMiB, kA, kFirst));
  EXPECT_FALSE(tide.Allocate(1, kA, kFirst));
  const TideAllocator::Statistics counted = tide.statistics();
  EXPECT_EQ(counted.jobs.at(kFirst).charged, 40 * kMiB);
  EXPECT_EQ(counted.jobs.at(kFirst).out_of_memory, 1);
  EXPECT_EQ(counted.jobs.at(kSecond).charged, 60 * kMiB);
  EXPECT_EQ(counted.jobs.at(kSecond).allocated, 60 * kMiB);
  EXPECT_EQ(counted.jobs.at(kSecond).out_of_memory, 1);
  EXPECT_EQ(counted.out_of_memory, 2);
}

// What the second cached is given back when the first asks for what it is guaranteed, though it is not finished yet.
TEST(TideQuotas, CachedMemoryIsGivenBackToWhomItIsPromised) {
  PagesDevice device(100 * kMiB);
  TideAllocator tide(device);
  std::vector<Block> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(*tide.Allocate(5 * kMiB, kB, kSecond));
  device.Submit(kB);
  for (const Block& block : blocks) tide.Free(block.id);
  ASSERT_TRUE(tide.SetQuota(kFirst, {.guaranteed = 90 * kMiB}));
  EXPECT_TRUE(tide.Allocate(90 * kMiB, kA, kFirst));
  EXPECT_TRUE(tide.IsValid());
}

TEST(TideQuotas, ALimitHoldsAndHurtsNobodyElse) {
  PagesDevice device(100 * kMiB);
  TideAllocator tide(device);
  ASSERT_TRUE(tide.SetQuota(kFirst, {.guaranteed = 10 * kMiB, .limit = 20 * kMiB}));
  EXPECT_TRUE(tide.Allocate(20 * kMiB, kA, kFirst));
  EXPECT_FALSE(tide.Allocate(2 * kMiB, kA, kFirst));
  EXPECT_TRUE(tide.Allocate(80 * kMiB, kB, kSecond));
}

TEST(TideQuotas, WhatCannotBePromisedIsRefused) {
  PagesDevice device(100 * kMiB);
  TideAllocator tide(device);
  ASSERT_TRUE(tide.SetQuota(kFirst, {.guaranteed = 60 * kMiB}));
  EXPECT_FALSE(tide.SetQuota(kSecond, {.guaranteed = 42 * kMiB}));
  EXPECT_TRUE(tide.SetQuota(kSecond, {.guaranteed = 40 * kMiB}));
  EXPECT_FALSE(tide.SetQuota(kThird, {.guaranteed = 4 * kMiB, .limit = 2 * kMiB}));
  EXPECT_FALSE(tide.SetQuota(JobId(), {}));
  EXPECT_FALSE(tide.SetCapacity(98 * kMiB));
  EXPECT_TRUE(tide.SetQuota(kSecond, {}));
  EXPECT_TRUE(tide.SetCapacity(60 * kMiB));
  EXPECT_FALSE(tide.Allocate(2 * kMiB, kB, kSecond));
  EXPECT_EQ(tide.SetCapacity(58 * kMiB).error().message,
            "capacity 58.00 MiB: 60.00 MiB are guaranteed or in use already");
}

// Blocks that are there before the first quota count too.
TEST(TideQuotas, CountingBeginsWithWhatIsThere) {
  PagesDevice device(100 * kMiB);
  TideAllocator tide(device);
  const Block block = *tide.Allocate(70 * kMiB, kB);
  EXPECT_FALSE(tide.SetQuota(kFirst, {.guaranteed = 40 * kMiB}));
  EXPECT_TRUE(tide.SetQuota(kFirst, {.guaranteed = 30 * kMiB}));
  tide.Free(block.id);
  EXPECT_TRUE(tide.SetQuota(kFirst, {.guaranteed = 100 * kMiB}));
}

// The law: a request whose pages fit the guarantee is met, whatever the others did. A page that a job has a byte in is
// charged to it; the sum of what is charged or guaranteed is within the capacity.
TEST(TideQuotas, NoProgramBreaksAGuarantee) {
  constexpr Bytes kCapacity = 128 * kMiB, kPage = PagesDevice::kPage;
  std::int64_t within = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    PagesDevice device(kCapacity);
    TideAllocator tide(device);
    const std::array<Bytes, 4> guaranteed = {32 * kMiB, 24 * kMiB, 40 * kMiB, 0};
    for (std::size_t job = 0; job < 3; ++job) ASSERT_TRUE(tide.SetQuota(JobId(job), {.guaranteed = guaranteed[job]}));
    struct Held {
      Block block;
      std::size_t job;
    };
    std::vector<Held> held;
    for (int i = 0; i < 500; ++i) {
      const std::size_t job = random() % 4;
      const StreamId stream(random() % 5);
      device.Submit(stream);
      if (random() % 6 == 0) device.Finish(stream);
      if (random() % 5 < 3 || held.empty()) {
        const Bytes most = random() % 3 == 0 ? 16 * kMiB : random() % 2 ? 3 * kMiB : 32 * kKiB;
        const Bytes bytes = 1 + static_cast<Bytes>(random() % static_cast<std::uint64_t>(most));
        std::array<std::set<Address>, 4> pages;
        for (const Held& one : held) {
          for (Address page = one.block.address / kPage;
               page * kPage < one.block.address + static_cast<Address>(one.block.bytes); ++page) {
            pages[one.job].insert(page);
          }
        }
        Bytes claimed = 0;
        for (std::size_t j = 0; j < 4; ++j) {
          claimed += std::max(static_cast<Bytes>(pages[j].size()) * kPage, guaranteed[j]);
        }
        ASSERT_LE(claimed, kCapacity);
        const Bytes after = static_cast<Bytes>(pages[job].size()) * kPage + RoundUp(bytes, kPage);
        const auto got = tide.Allocate(bytes, stream, JobId(job));
        within += after <= guaranteed[job];
        refused += !got;
        ASSERT_TRUE(got || after > guaranteed[job]) << bytes << " bytes of job " << job;
        if (got) held.push_back({*got, job});
      } else {
        const std::size_t which = random() % held.size();
        tide.Free(held[which].block.id);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
      ASSERT_LE(device.used(), kCapacity);
    }
    ASSERT_TRUE(tide.IsValid());
  }
  EXPECT_GT(within, 1000);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace ebbtide::tide
