// The tide allocator: which class meets a request, what a stream is made to wait for, and laws against a shadow that
// knows nothing but addresses and uses.
#include "tide/tide.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace ebbtide::tide {
namespace {

constexpr Bytes kBig = 10 * kMiB;
const StreamId kA(0), kB(1), kC(2);

struct Bed {
  DeviceMemory device;
  Streams streams;
  TideAllocator tide{device, streams};

  Block Get(Bytes bytes, StreamId stream) {
    const std::optional<Block> block = tide.Allocate(bytes, stream);
    EXPECT_TRUE(block);
    return block.value_or(Block{});
  }
  // A block of the stream that is freed while its work is not finished.
  Block FreedBy(StreamId stream, Bytes bytes) {
    const Block block = Get(bytes, stream);
    streams.Submit(stream);
    tide.Free(block.id);
    return block;
  }
};

TEST(Tide, TheOwnStreamTakesWhatItFreed) {
  Bed bed;
  const Block freed = bed.FreedBy(kA, kBig);
  EXPECT_EQ(bed.Get(kBig, kA).address, freed.address);
  EXPECT_EQ(bed.tide.met()[TideAllocator::kSameStream], 1);
  EXPECT_EQ(bed.tide.waits(), 0);
}

TEST(Tide, AnotherStreamWaitsForTheFreeOnce) {
  Bed bed;
  const Block first = bed.Get(kBig, kA), second = bed.Get(kBig, kA);
  bed.streams.Submit(kA);
  bed.tide.Free(first.id);
  bed.tide.Free(second.id);
  EXPECT_EQ(bed.Get(kBig, kB).address, first.address);
  EXPECT_EQ(bed.tide.met()[TideAllocator::kScheduled], 1);
  // The wait covers the second as well: both were freed at the same point.
  EXPECT_EQ(bed.Get(kBig, kB).address, second.address);
  EXPECT_EQ(bed.tide.met()[TideAllocator::kOrdered], 1);
  EXPECT_EQ(bed.tide.waits(), 1);
  EXPECT_EQ(bed.streams.host_waits(), 0);
  EXPECT_EQ(bed.tide.usage().reserved, 2 * kBig);
}

// The chunks touch and are joined; the first part was freed one piece of work before the second. Whoever has waited for
// the first free may have the first part, and nothing of the second.
TEST(Tide, AWaitIsForTheUsesOfThePartTaken) {
  Bed bed;
  const Block first = bed.Get(kBig, kA), second = bed.Get(kBig, kA);
  bed.streams.Submit(kA);
  bed.tide.Free(first.id);
  bed.tide.Ordered(kB, bed.streams.Record(kA));
  bed.streams.Submit(kA);
  bed.tide.Free(second.id);
  EXPECT_EQ(bed.Get(kBig, kB).address, first.address);
  EXPECT_EQ(bed.tide.met()[TideAllocator::kOrdered], 1);
  EXPECT_EQ(bed.tide.waits(), 0);
  EXPECT_EQ(bed.Get(kBig, kB).address, second.address);
  EXPECT_EQ(bed.tide.waits(), 1);
}

TEST(Tide, WhatIsFinishedBelongsToAll) {
  Bed bed;
  const Block freed = bed.FreedBy(kA, kBig);
  bed.streams.FinishAll();
  EXPECT_EQ(bed.Get(kBig, kB).address, freed.address);
  EXPECT_EQ(bed.tide.met()[TideAllocator::kCompleted], 1);
  EXPECT_EQ(bed.tide.waits(), 0);
}

TEST(Tide, AllUsesCount) {
  Bed bed;
  const Block block = bed.Get(kBig, kA);
  bed.tide.RecordStream(block.id, kB);
  bed.streams.Submit(kA);
  bed.streams.Submit(kB);
  bed.tide.Free(block.id);
  EXPECT_EQ(bed.Get(kBig, kC).address, block.address);
  EXPECT_EQ(bed.tide.waits(), 2);
}

// 10 MiB free at the end of the range: 16 MiB take 6 more.
TEST(Tide, GrowsByWhatIsMissing) {
  Bed bed;
  const Block freed = bed.FreedBy(kA, kBig);
  EXPECT_EQ(bed.Get(16 * kMiB, kB).address, freed.address);
  EXPECT_EQ(bed.tide.usage().reserved, 16 * kMiB);
  EXPECT_EQ(bed.tide.met()[TideAllocator::kGrown], 2);
}

// Chunks of two streams side by side serve a third, which waits for both.
TEST(Tide, ChunksOfSeveralStreamsMakeOne) {
  Bed bed;
  const Block first = bed.Get(kBig, kA), second = bed.Get(kBig, kB);
  bed.streams.Submit(kA);
  bed.streams.Submit(kB);
  bed.tide.Free(first.id);
  bed.tide.Free(second.id);
  EXPECT_EQ(bed.Get(2 * kBig, kC).address, first.address);
  EXPECT_EQ(bed.tide.waits(), 2);
  EXPECT_EQ(bed.tide.usage().reserved, 2 * kBig);
}

TEST(Tide, GivesBackUnderPressureAndFailsWhole) {
  DeviceMemory device({.total = 40 * kMiB, .taken = 0});
  Streams streams;
  TideAllocator tide(device, streams);
  const auto low = tide.Allocate(16 * kMiB, kA), high = tide.Allocate(16 * kMiB, kA);
  tide.Free(low->id);
  // 16 free below, 8 left on the device: 24 in one piece take 24 at the end, of which 16 come from below.
  const auto block = tide.Allocate(24 * kMiB, kA);
  ASSERT_TRUE(block);
  EXPECT_GT(block->address, high->address);
  EXPECT_EQ(tide.usage().reserved, 40 * kMiB);
  EXPECT_FALSE(tide.Allocate(2 * kMiB, kA));
  EXPECT_EQ(tide.usage().reserved, 40 * kMiB);
  EXPECT_EQ(device.used(), 40 * kMiB);
  tide.Free(block->id);
  tide.Free(high->id);
  tide.EmptyCache();
  EXPECT_EQ(tide.usage().reserved, 0);
  EXPECT_EQ(device.used(), 0);
}

constexpr Bytes kLargeStep = 256 * kKiB;
// Small and large blocks have ranges of their own, so that each range has one step.
Bytes StepOf(const Block& block) { return block.bytes > kMiB ? kLargeStep : 512; }

// The shadow keeps, step by step, the last use of each stream, and what each stream has waited for. Whatever a stream
// is given is either its own, finished, or behind a wait of its own.
class Shadow {
 public:
  Shadow(Streams& streams, std::size_t count) : streams_(streams), known_(count, std::vector<std::int64_t>(count, 0)) {}

  void Given(const Block& block, StreamId stream, bool may_wait) {
    bool waited = false;
    for (const auto& [address, uses] : Of(block)) {
      for (const auto& [other, position] : uses) {
        if (other == stream.index() || streams_.Reached({StreamId(other), position})) continue;
        std::int64_t& known = known_[stream.index()][other];
        if (known >= position) continue;
        waited = true;
        known = std::max(known, position);
      }
    }
    EXPECT_TRUE(may_wait || !waited) << "a use that is not over, on another stream, without a wait";
    // What comes after a use that was waited for comes after those before it.
    last_.erase(last_.lower_bound(block.address), last_.lower_bound(block.address + static_cast<Address>(block.bytes)));
    for (Bytes at = 0; at < block.bytes; at += StepOf(block)) {
      EXPECT_TRUE(taken_.emplace(block.address + static_cast<Address>(at), true).second) << "given twice";
    }
  }
  void Freed(const Block& block, const std::vector<StreamId>& users) {
    for (Bytes at = 0; at < block.bytes; at += StepOf(block)) {
      taken_.erase(block.address + static_cast<Address>(at));
      auto& uses = last_[block.address + static_cast<Address>(at)];
      for (const StreamId user : users) uses[user.index()] = streams_.Record(user).position;
    }
  }

 private:
  std::map<Address, std::map<std::size_t, std::int64_t>> Of(const Block& block) const {
    const auto begin = last_.lower_bound(block.address);
    return {begin, last_.lower_bound(block.address + static_cast<Address>(block.bytes))};
  }
  Streams& streams_;
  std::vector<std::vector<std::int64_t>> known_;
  std::map<Address, std::map<std::size_t, std::int64_t>> last_;
  std::map<Address, bool> taken_;
};

TEST(Tide, NobodyGetsWhatAnotherStreamMayStillUse) {
  constexpr std::size_t kStreams = 5;
  std::int64_t scheduled = 0, ordered = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    DeviceMemory device({.total = 64 * kMiB, .taken = 0});
    Streams streams;
    TideAllocator tide(device, streams);
    Shadow shadow(streams, kStreams);
    struct Held {
      Block block;
      std::vector<StreamId> users;
    };
    std::vector<Held> held;
    Bytes allocated = 0;
    for (int i = 0; i < 600; ++i) {
      const StreamId stream(below(kStreams));
      if (below(10) < 5) {
        // Large ones in steps: the shadow stays small.
        const Bytes bytes =
            below(3) ? 1 + static_cast<Bytes>(below(3000)) : kMiB + static_cast<Bytes>(1 + below(16)) * kLargeStep;
        const std::int64_t waits = tide.waits();
        const std::optional<Block> block = tide.Allocate(bytes, stream);
        if (!block) continue;
        ASSERT_GE(block->bytes, bytes);
        shadow.Given(*block, stream, tide.waits() > waits);
        held.push_back({*block, {stream}});
        allocated += block->bytes;
      } else if (!held.empty() && below(10) < 8) {
        const std::size_t which = below(held.size());
        shadow.Freed(held[which].block, held[which].users);
        allocated -= held[which].block.bytes;
        tide.Free(held[which].block.id);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      } else if (!held.empty() && below(2)) {
        Held& one = held[below(held.size())];
        tide.RecordStream(one.block.id, stream);
        one.users.push_back(stream);
      } else if (below(4) == 0) {
        streams.Finish(streams.Record(stream));
      } else if (below(20) == 0) {
        tide.EmptyCache();
      }
      streams.Submit(StreamId(below(kStreams)));
      ASSERT_EQ(tide.usage().allocated, allocated);
      ASSERT_EQ(tide.usage().reserved, device.used());
      ASSERT_LE(allocated, device.used());
      if (i % 8 == 0) {
        ASSERT_TRUE(tide.IsValid());
      }
      if (HasFailure()) return;
    }
    scheduled += tide.met()[TideAllocator::kScheduled];
    ordered += tide.met()[TideAllocator::kOrdered];
    for (const Held& one : held) tide.Free(one.block.id);
    streams.FinishAll();
    tide.EmptyCache();
    ASSERT_EQ(device.used(), 0);
  }
  EXPECT_GT(scheduled, 100);
  EXPECT_GT(ordered, 100);
}

}  // namespace
}  // namespace ebbtide::tide
