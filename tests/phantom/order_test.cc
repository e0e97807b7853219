// Random programs over several streams. A program that waits where it must gives the same bytes as its operations one
// after another, whatever the threads do; and the race checker finds no fault in it, but finds one where a wait that
// was needed is left out.
#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <vector>

#include "phantom/core/declare.h"
#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

constexpr int kStreams = 5;
constexpr int kBuffers = 6;
constexpr std::size_t kBytes = 4096;

// What the generator knows of an access: its stream and an event recorded behind it.
struct Access {
  int stream = -1;
  CUevent behind = nullptr;
};

struct Buffer {
  CUdeviceptr device = 0;
  std::vector<unsigned char> expected;
  Access write;
  std::vector<Access> reads;
};

class Program {
 public:
  // `skip`: how many waits that are needed are left out.
  Program(std::uint32_t seed, int operations, int skip) : random_(seed), skip_(skip) {
    for (auto& stream : streams_) stream = NewStream(Chance(2) ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    for (auto& buffer : buffers_) {
      buffer.device = Allocate(kBytes);
      buffer.expected.assign(kBytes, 0);
      EXPECT_EQ(cuMemsetD8(buffer.device, 0, kBytes), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    skip_at_ = skip > 0 ? Below(operations) : operations;
    for (int i = 0; i < operations; ++i) Step(i);
  }

  void Check() {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    for (Buffer& buffer : buffers_) {
      std::vector<unsigned char> found(kBytes);
      EXPECT_EQ(cuMemcpyDtoH(found.data(), buffer.device, kBytes), CUDA_SUCCESS);
      EXPECT_EQ(found, buffer.expected);
    }
  }
  int skipped() const { return skipped_; }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  bool Chance(int one_in) { return Below(one_in) == 0; }

  void WaitFor(int stream, const Access& access, bool may_skip) {
    if (access.stream < 0 || access.stream == stream) return;
    if (may_skip && skip_ > 0) {
      --skip_;
      ++skipped_;
      return;
    }
    EXPECT_EQ(cuStreamWaitEvent(streams_[stream], access.behind, 0), CUDA_SUCCESS);
  }

  Access Behind(int stream) {
    CUevent event = NewEvent(CU_EVENT_DISABLE_TIMING);
    EXPECT_EQ(cuEventRecord(event, streams_[stream]), CUDA_SUCCESS);
    return {stream, event};
  }

  void Step(int number) {
    int s = Below(kStreams);
    Buffer& to = buffers_[Below(kBuffers)];
    Buffer& from = buffers_[Below(kBuffers)];
    bool copies = &to != &from && Chance(2);
    std::size_t begin = static_cast<std::size_t>(Below(kBytes / 2)),
                size = static_cast<std::size_t>(Below(kBytes / 2) + 1);
    bool may_skip = number >= skip_at_;
    WaitFor(s, to.write, may_skip);
    for (const Access& read : to.reads) WaitFor(s, read, may_skip);
    if (copies) {
      WaitFor(s, from.write, may_skip);
      EXPECT_EQ(cuMemcpyDtoDAsync(to.device + begin, from.device + begin, size, streams_[s]), CUDA_SUCCESS);
      std::memmove(to.expected.data() + begin, from.expected.data() + begin, size);
      from.reads.push_back(Behind(s));
    } else {
      auto value = static_cast<unsigned char>(Below(256));
      EXPECT_EQ(cuMemsetD8Async(to.device + begin, value, size, streams_[s]), CUDA_SUCCESS);
      std::memset(to.expected.data() + begin, value, size);
    }
    to.write = Behind(s);
    to.reads.clear();
    if (Chance(20)) {
      EXPECT_EQ(cuStreamSynchronize(streams_[s]), CUDA_SUCCESS);
    }
  }

  std::mt19937 random_;
  int skip_, skip_at_ = 0, skipped_ = 0;
  CUstream streams_[kStreams];
  Buffer buffers_[kBuffers];
};

TEST(RandomPrograms, GiveTheBytesOfTheirOrder) {
  InFreshProcess({{"BACKED", "64MiB"}}, [] {
    StartDriver();
    for (std::uint32_t seed = 0; seed < 30; ++seed) Program(seed, 200, 0).Check();
  });
}

TEST(RandomPrograms, GiveTheBytesOfTheirOrderWithJitter) {
  for (const char* jitter_seed : {"1", "2"}) {
    InFreshProcess({{"BACKED", "64MiB"}, {"JITTER_US", "100"}, {"SEED", jitter_seed}}, [] {
      StartDriver();
      for (std::uint32_t seed = 100; seed < 103; ++seed) Program(seed, 150, 0).Check();
    });
  }
}

TEST(RandomPrograms, WithAllTheirWaitsHaveNoRaces) {
  InFreshProcess({{"CHECK", "race"}}, [] {
    StartDriver();
    for (std::uint32_t seed = 0; seed < 30; ++seed) Program program(seed, 200, 0);
    EXPECT_EQ(ebbtide_phantom_race_count(), 0);
  });
}

// A wait that is left out may be made up for by other waits and by the legacy stream; most are not.
TEST(RandomPrograms, WithoutSomeWaitsHaveRaces) {
  int racy = 0, incomplete = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Ended ended = RunToTheEnd({{"CHECK", "race"}}, [seed] {
      StartDriver();
      Program program(seed, 200, 20);
      _exit(program.skipped() < 5 ? 10 : ebbtide_phantom_race_count() > 0 ? 11 : 12);
    });
    racy += WEXITSTATUS(ended.status) == 11;
    incomplete += WEXITSTATUS(ended.status) >= 11;
  }
  EXPECT_GE(incomplete, 15);
  EXPECT_EQ(racy, incomplete);
}

}  // namespace
}  // namespace ebbtide::phantom
