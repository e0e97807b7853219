// The race checker against the naive one: both must name exactly the same pairs of operations, on random programs.
#include "phantom/core/race.h"

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "phantom/core/declare.h"
#include "phantom/core/device.h"
#include "tests/phantom/naive_race.h"
#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

using Pairs = std::set<std::pair<std::string, std::string>>;
using Step = std::array<std::uint8_t, 8>;  // any bytes are a step of a program

constexpr int kStreams = 4;
constexpr int kEvents = 3;
constexpr int kMemory = 24;
constexpr std::uint64_t kBase = 0x1000;

Pairs NamesOf(const std::vector<RaceChecker::Race>& races) {
  Pairs names;
  for (const RaceChecker::Race& race : races) names.emplace(race.first.name, race.second.name);
  return names;
}

// Both checkers, each told of every operation of a program.
class BothCheckers {
 public:
  BothCheckers() {
    for (int i = 0; i < kStreams; ++i) {
      EXPECT_EQ(fast_.StreamCreated(), i);
      EXPECT_EQ(naive_.AddStream(false), i);
    }
    for (int i = 0; i < kEvents; ++i) clocks_.push_back(fast_.Recorded(0)), nodes_.push_back(naive_.Record(0));
  }

  void Do(const Step& step) {
    int stream = step[1] % kStreams, event = step[2] % kEvents;
    auto name = "op" + std::to_string(next_++);
    auto [begin, end] = Bytes(step[3], step[4]);
    std::uint64_t address = kBase + static_cast<std::uint64_t>(begin);
    switch (step[0] % 32) {
      case 0:
      case 1:
      case 2:
        clocks_[event] = fast_.Recorded(stream);
        nodes_[event] = naive_.Record(stream);
        break;
      case 3:
      case 4:
      case 5:
        fast_.StreamWaits(stream, clocks_[event]);
        naive_.Wait(stream, nodes_[event]);
        break;
      case 6: fast_.HostWaits(clocks_[event]), naive_.HostWait(nodes_[event]); break;
      case 7: fast_.HostSynchronized(stream), naive_.HostSynchronize(stream); break;
      case 8:
        if (step[5] % 4 == 0) fast_.DeviceSynchronized(), naive_.DeviceSynchronize();
        break;
      case 9: fast_.HostSaw(clocks_[event]), naive_.Saw(nodes_[event]); break;
      case 10: fast_.Released(address, end - begin), naive_.Released(begin, end); break;
      case 11: fast_.Freed(address, end - begin, name, ""), naive_.HostFree(name, begin, end); break;
      case 12: fast_.Allocated(address, end - begin), naive_.Allocated(begin, end); break;
      default: Operate(stream, name, step); break;
    }
  }

  Pairs fast() const { return NamesOf(fast_.races()); }
  const Pairs& naive() const { return naive_.races(); }

 private:
  static std::pair<int, int> Bytes(int a, int b) {
    int begin = a % kMemory;
    return {begin, std::min(kMemory, begin + 1 + b % 8)};
  }

  void Operate(int stream, const std::string& name, const Step& step) {
    std::vector<Access> accesses;
    std::vector<NaiveRaces::Touch> touches;
    for (int i = 0; i < 1 + step[7] % 2; ++i) {
      auto [begin, end] = Bytes(step[3 + 2 * i], step[4 + 2 * i]);
      int kind = (step[7] >> (2 + 2 * i)) % 12 < 10 ? (step[7] >> (2 + 2 * i)) % 2 : (step[7] >> (2 + 2 * i)) % 4;
      accesses.push_back({kBase + static_cast<std::uint64_t>(begin), end - begin, static_cast<AccessKind>(kind)});
      touches.push_back({begin, end, static_cast<NaiveRaces::Kind>(kind)});
    }
    fast_.Operation(stream, name, "", accesses);
    naive_.Operation(stream, name, touches);
  }

  RaceChecker fast_;
  NaiveRaces naive_;
  std::vector<RaceChecker::Clock> clocks_;
  std::vector<int> nodes_;
  int next_ = 0;
};

RC_GTEST_PROP(RaceChecker, FindsWhatTheNaiveOneFinds, (const std::vector<Step>& program)) {
  BothCheckers both;
  for (const Step& step : program) both.Do(step);
  RC_ASSERT(both.fast() == both.naive());
}

TEST(RaceChecker, FindsWhatTheNaiveOneFindsInLongPrograms) {
  int with_races = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    BothCheckers both;
    for (int i = 0; i < 120; ++i) {
      Step step;
      for (auto& byte : step) byte = static_cast<std::uint8_t>(random());
      both.Do(step);
    }
    ASSERT_EQ(both.fast(), both.naive()) << "seed " << seed;
    with_races += !both.fast().empty();
  }
  EXPECT_GT(with_races, 75);
}

// The same on the driver, with the legacy stream, blocking and non-blocking ones, and memory in 512-byte steps.
class OnTheDriver {
 public:
  explicit OnTheDriver(std::uint32_t seed) : random_(seed), name_("p" + std::to_string(seed)) {
    streams_.push_back(nullptr);
    naive_.AddStream(false);
    for (int i = 1; i < kStreams; ++i) {
      streams_.push_back(NewStream(i == 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
      naive_.AddStream(i != 1);
    }
    memory_ = Allocate(kMemory * 512);
    for (int i = 0; i < kEvents; ++i) {
      events_.push_back(NewEvent());
      EXPECT_EQ(cuEventRecord(events_[i], streams_[1]), CUDA_SUCCESS);
      nodes_.push_back(naive_.Record(1));
    }
    for (int i = 0; i < 60; ++i) Step("." + std::to_string(i));
    EXPECT_EQ(cuMemFree(memory_), CUDA_SUCCESS);
    for (int i = 1; i < kStreams; ++i) EXPECT_EQ(cuStreamDestroy(streams_[i]), CUDA_SUCCESS);
  }

  const Pairs& naive() const { return naive_.races(); }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  void Step(const std::string& number) {
    int s = Below(kStreams), e = Below(kEvents);
    CUstream stream = streams_[s];
    switch (Below(12)) {
      case 0:
      case 1:
        EXPECT_EQ(cuEventRecord(events_[e], stream), CUDA_SUCCESS);
        nodes_[e] = naive_.Record(s);
        break;
      case 2:
      case 3:
        EXPECT_EQ(cuStreamWaitEvent(stream, events_[e], 0), CUDA_SUCCESS);
        naive_.Wait(s, nodes_[e]);
        break;
      case 4: {
        if (Below(3) != 0) break;
        bool asks = Below(2) == 0;
        EXPECT_EQ(asks ? cuEventQuery(events_[e]) : cuEventSynchronize(events_[e]), CUDA_SUCCESS);
        naive_.HostWait(nodes_[e]);
        break;
      }
      case 5:
        if (Below(3) != 0) break;
        EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
        naive_.HostSynchronize(s);
        break;
      default: {
        int begin = Below(kMemory), end = std::min(kMemory, begin + 1 + Below(6));
        int writes = Below(2);
        std::string name = name_ + number;
        ebbtide_phantom_declare(stream, reinterpret_cast<void*>(memory_ + static_cast<CUdeviceptr>(begin) * 512),
                                static_cast<std::size_t>(end - begin) * 512, writes, name.c_str());
        naive_.Operation(s, name, {{begin, end, writes ? NaiveRaces::kWrite : NaiveRaces::kRead}});
        break;
      }
    }
  }

  std::mt19937 random_;
  std::string name_;
  NaiveRaces naive_;
  CUdeviceptr memory_ = 0;
  std::vector<CUstream> streams_;
  std::vector<CUevent> events_;
  std::vector<int> nodes_;
};

TEST(RaceChecker, FindsWhatTheNaiveOneFindsOnTheDriver) {
  for (std::uint32_t batch = 0; batch < 10; ++batch) {
    InFreshProcess({{"CHECK", "race"}}, [batch] {
      StartDriver();
      Pairs expected;
      for (std::uint32_t seed = batch * 10; seed < batch * 10 + 10; ++seed)
        expected.merge(Pairs(OnTheDriver(seed).naive()));
      EXPECT_FALSE(expected.empty());
      EXPECT_LT(expected.size(), RaceChecker::kKept);
      EXPECT_EQ(NamesOf(TheDevice().races->races()), expected);
    });
  }
}

TEST(RaceChecker, TellsBothSidesAndCountsWhatRepeats) {
  RaceChecker checker;
  int a = checker.StreamCreated(), b = checker.StreamCreated();
  for (int i = 0; i < 3; ++i) {
    checker.Operation(a, "produce", "train.py:1", std::vector<Access>{{100, 50, AccessKind::kWrite}});
    checker.Operation(b, "consume", "train.py:2", std::vector<Access>{{140, 50, AccessKind::kRead}});
  }
  // Each read races with the write before it, each write but the first with the read before it.
  EXPECT_EQ(checker.race_count(), 5);
  std::vector<RaceChecker::Race> races = checker.races();
  ASSERT_EQ(races.size(), 2u);
  EXPECT_EQ(races[0].first.name + races[0].first.frame, "producetrain.py:1");
  EXPECT_EQ(races[0].second.name + races[0].second.frame, "consumetrain.py:2");
  EXPECT_EQ(races[0].first.stream, a);
  EXPECT_EQ(races[0].second.stream, b);
  EXPECT_EQ(races[0].first.operation, 1u);
  EXPECT_EQ(races[0].begin, 140u);
  EXPECT_EQ(races[0].bytes, 10);
  EXPECT_EQ(races[0].count, 3);
  EXPECT_EQ(races[1].count, 2);
}

// A query lets pinned memory and released memory be used again, and nothing else.
TEST(RaceChecker, QueriesOrderPinnedAndReleasedMemoryOnly) {
  RaceChecker checker;
  int a = checker.StreamCreated(), b = checker.StreamCreated();
  auto write = [&](int stream, std::uint64_t at, bool on_host) {
    checker.Operation(stream, "write", "", std::vector<Access>{{at, 8, AccessKind::kWrite, on_host}});
  };
  write(a, 0, true);
  write(a, 100, false);
  write(a, 200, false);
  checker.HostSawStream(a);
  checker.Released(100, 8);
  write(b, 0, true);
  write(b, 100, false);
  EXPECT_EQ(checker.race_count(), 0);
  write(b, 200, false);
  EXPECT_EQ(checker.race_count(), 1);
}

TEST(RaceChecker, StaysSmall) {
  RaceChecker checker;
  int a = checker.StreamCreated(), b = checker.StreamCreated();
  // 100 000 pieces with a history each, then one write over all of them.
  for (std::uint64_t i = 0; i < 100000; ++i)
    checker.Operation(i % 2 ? a : b, "piece", "", std::vector<Access>{{i * 64, 64, AccessKind::kRead}});
  EXPECT_EQ(checker.cell_count(), 100000u);
  checker.StreamWaits(a, checker.Recorded(b));
  checker.Operation(a, "all", "", std::vector<Access>{{0, 6400000, AccessKind::kWrite}});
  EXPECT_EQ(checker.cell_count(), 1u);
  // What the host has waited for is forgotten.
  for (std::uint64_t i = 0; i < 100000; ++i) {
    checker.Operation(a, "piece", "", std::vector<Access>{{i * 64, 64, AccessKind::kRead}});
    checker.HostSynchronized(a);
  }
  EXPECT_LT(checker.cell_count(), 5000u);
  EXPECT_EQ(checker.race_count(), 0);
}

// Streams that come and go do not make the clocks longer, once the host has waited for them.
TEST(RaceChecker, SlotsOfStreamsAreUsedAgain) {
  RaceChecker checker;
  int kept = checker.StreamCreated();
  for (int i = 0; i < 100; ++i) {
    int stream = checker.StreamCreated();
    EXPECT_LE(stream, 1);
    checker.Operation(stream, "write", "", std::vector<Access>{{0, 8, AccessKind::kWrite}});
    checker.HostSynchronized(stream);
    checker.StreamDestroyed(stream);
  }
  EXPECT_EQ(checker.race_count(), 0);
  int last = checker.StreamCreated();
  checker.Operation(last, "write", "", std::vector<Access>{{0, 8, AccessKind::kWrite}});
  checker.StreamDestroyed(last);
  int other = checker.StreamCreated();
  EXPECT_NE(other, last);
  checker.Operation(kept, "read", "", std::vector<Access>{{0, 8, AccessKind::kRead}});
  EXPECT_EQ(checker.race_count(), 1);
}

}  // namespace
}  // namespace ebbtide::phantom
