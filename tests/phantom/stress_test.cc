// Everything at once from several threads, for the sanitizers: `cmake --preset tsan`, `cmake --preset asan`.
#include <cuda.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "phantom/core/declare.h"
#include "tests/phantom/driver.h"
#include "tests/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

constexpr int kThreads = 4;
constexpr int kSteps = 400;
constexpr std::size_t kMiB = 1 << 20;

// One thread's part: streams and events of its own, and some that all threads use.
class Worker {
 public:
  Worker(std::uint32_t seed, const std::vector<CUstream>& shared, const std::vector<CUevent>& events,
         std::atomic<int>& host_calls)
      : random_(seed), streams_(shared), events_(events), host_calls_(host_calls) {}

  void Run() {
    StartDriver();
    for (int i = 0; i < 2; ++i) streams_.push_back(NewStream(i ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    void* host = nullptr;
    ASSERT_EQ(cuMemAllocHost(&host, 65536), CUDA_SUCCESS);
    for (int i = 0; i < kSteps; ++i) Step(static_cast<char*>(host));
    for (CUdeviceptr pointer : held_) EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
    for (std::size_t i = streams_.size() - 2; i < streams_.size(); ++i) {
      EXPECT_EQ(cuStreamSynchronize(streams_[i]), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamDestroy(streams_[i]), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  }

 private:
  std::size_t Below(std::size_t limit) { return random_() % limit; }

  void Step(char* host) {
    CUstream stream = Below(10) == 0 ? nullptr : streams_[Below(streams_.size())];
    CUevent event = events_[Below(events_.size())];
    std::size_t bytes = Below(60000) + 1;
    switch (Below(10)) {
      case 0: {
        CUdeviceptr pointer = 0;
        CUresult result = cuMemAlloc(&pointer, Below(2) ? bytes : kMiB + bytes);
        if (result == CUDA_SUCCESS) held_.push_back(pointer);
        else EXPECT_EQ(result, CUDA_ERROR_OUT_OF_MEMORY);
        break;
      }
      case 1:
        if (held_.empty()) break;
        EXPECT_EQ(cuMemFree(held_.back()), CUDA_SUCCESS);
        held_.pop_back();
        break;
      case 2: {
        CUdeviceptr pointer = 0;
        if (cuMemAllocAsync(&pointer, bytes, stream) != CUDA_SUCCESS) break;
        EXPECT_EQ(cuMemcpyHtoDAsync(pointer, host, bytes, stream), CUDA_SUCCESS);
        EXPECT_EQ(cuMemsetD8Async(pointer, 3, bytes / 2, stream), CUDA_SUCCESS);
        EXPECT_EQ(cuMemFreeAsync(pointer, stream), CUDA_SUCCESS);
        break;
      }
      case 3: EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS); break;
      case 4: EXPECT_EQ(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS); break;
      case 5: cuEventQuery(event); break;
      case 6:
        EXPECT_EQ(cuLaunchHostFunc(stream, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &host_calls_),
                  CUDA_SUCCESS);
        break;
      case 7:
        if (Below(4) == 0) {
          EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
        }
        break;
      case 8: Map(); break;
      default: MemoryInfo(); break;
    }
  }

  void Map() {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr begin = 0;
    if (cuMemCreate(&handle, 2 * kMiB, &properties, 0) != CUDA_SUCCESS) return;
    EXPECT_EQ(cuMemAddressReserve(&begin, 4 * kMiB, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(begin, 2 * kMiB, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8(begin, 1, 2 * kMiB), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemUnmap(begin, 2 * kMiB), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressFree(begin, 4 * kMiB), CUDA_SUCCESS);
  }

  std::mt19937 random_;
  std::vector<CUstream> streams_;
  const std::vector<CUevent>& events_;
  std::atomic<int>& host_calls_;
  std::vector<CUdeviceptr> held_;
};

void Stress() {
  StartDriver();
  std::size_t free_before = MemoryInfo().free;
  std::vector<CUstream> shared;
  std::vector<CUevent> events;
  std::atomic<int> host_calls{0};
  for (int i = 0; i < 3; ++i) shared.push_back(NewStream(i == 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 6; ++i) events.push_back(NewEvent());
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] { Worker(i, shared, events, host_calls).Run(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_GT(host_calls, 0);
  EXPECT_EQ(MemoryInfo().free, free_before);
}

TEST(Stress, ManyThreads) { InFreshProcess({{"BACKED", "64MiB"}}, &Stress); }

TEST(Stress, ManyThreadsWithJitter) { InFreshProcess({{"BACKED", "64MiB"}, {"JITTER_US", "20"}}, &Stress); }

TEST(Stress, ManyThreadsWithTheRaceChecker) { InFreshProcess({{"CHECK", "race"}}, &Stress); }

TEST(Stress, ManyThreadsWithFaults) {
  InFreshProcess({{"FAIL", "cuMemAllocAsync%0.1,cuMemAlloc%0.1,cuMemCreate%0.1"}, {"SHARED", "stress-" + std::to_string(getpid())}},
                 &Stress);
}

}  // namespace
}  // namespace ebbtide::phantom
