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
#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

constexpr int kThreads = 4;
constexpr int kSteps = 400;
constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kHost = 65536;  // bytes of pinned memory that copies read, and as many that they write

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
    ASSERT_EQ(cuMemAllocHost(&host, 2 * kHost), CUDA_SUCCESS);
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
    switch (Below(14)) {
      case 0: {
        CUdeviceptr pointer = 0;
        CUresult result = cuMemAlloc(&pointer, Below(2) ? bytes : kMiB + bytes);
        if (result == CUDA_SUCCESS)
          held_.push_back(pointer);
        else
          EXPECT_EQ(result, CUDA_ERROR_OUT_OF_MEMORY);
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
        EXPECT_EQ(cuLaunchHostFunc(
                      stream, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &host_calls_),
                  CUDA_SUCCESS);
        break;
      case 7:
        if (Below(4) == 0) {
          EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
        }
        break;
      case 8: Map(); break;
      case 9: OwnPool(stream, bytes); break;
      case 10: Declared(stream, bytes); break;
      case 11: StreamOfItsOwn(host, bytes); break;
      case 12: cuStreamQuery(stream); break;
      default: MemoryInfo(); break;
    }
  }

  // A pool that lives for one allocation, and the process's own one trimmed meanwhile.
  void OwnPool(CUstream stream, std::size_t bytes) {
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool pool = nullptr, common = nullptr;
    ASSERT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    CUdeviceptr pointer = 0;
    if (cuMemAllocFromPoolAsync(&pointer, bytes, pool, stream) == CUDA_SUCCESS) {
      EXPECT_EQ(cuMemsetD8Async(pointer, 5, bytes, stream), CUDA_SUCCESS);
      EXPECT_EQ(cuMemFreeAsync(pointer, stream), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuDeviceGetDefaultMemPool(&common, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemPoolTrimTo(common, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
  }

  // Operations with declared accesses, also to memory that another thread may be freeing.
  void Declared(CUstream stream, std::size_t bytes) {
    if (held_.empty()) return;
    auto* pointer = reinterpret_cast<void*>(held_[Below(held_.size())]);
    const auto races = ebbtide_phantom_race_count();
    ebbtide_phantom_begin("outer", "stress.cc:1");
    ebbtide_phantom_begin("inner", "stress.cc:2");
    ebbtide_phantom_declare(stream, pointer, bytes, Below(2) == 0, nullptr);
    ebbtide_phantom_kernel(stream, "kernel", 1000);
    ebbtide_phantom_end();
    ebbtide_phantom_released(pointer, bytes);
    ebbtide_phantom_end();
    EXPECT_GE(ebbtide_phantom_race_count(), races);  // no thread takes back what another found
  }

  // Freeing waits for the device, the destroyed stream included, so what is copied back has one writer at a time.
  void StreamOfItsOwn(char* host, std::size_t bytes) {
    CUstream stream = NewStream(Below(2) ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    CUdeviceptr pointer = 0;
    if (cuMemAlloc(&pointer, bytes) == CUDA_SUCCESS) {
      EXPECT_EQ(cuMemsetD8Async(pointer, 1, bytes, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
      EXPECT_EQ(cuMemcpyHtoDAsync(pointer, host, bytes, stream), CUDA_SUCCESS);
      EXPECT_EQ(cuMemcpyDtoHAsync(host + kHost, pointer, bytes, stream), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
      EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
    } else {
      EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
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
    bool mapped = cuMemMap(begin, 2 * kMiB, 0, handle, 0) == CUDA_SUCCESS;  // else a fault
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    if (mapped) {
      EXPECT_EQ(cuMemsetD8(begin, 1, 2 * kMiB), CUDA_SUCCESS);
      EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
      EXPECT_EQ(cuMemUnmap(begin, 2 * kMiB), CUDA_SUCCESS);
    }
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

constexpr const char* kFaults =
    "cuMemAllocAsync%0.1,cuMemAllocFromPoolAsync%0.1,cuMemAlloc%0.1,cuMemCreate%0.1,cuMemMap%0.1";

TEST(Stress, ManyThreadsWithFaults) {
  InFreshProcess({{"FAIL", kFaults}, {"SHARED", "stress-" + std::to_string(getpid())}}, &Stress);
}

TEST(Stress, ManyThreadsWithEverything) {
  TemporaryFolder folder;
  InFreshProcess({{"BACKED", "32MiB"},
                  {"CHECK", "race"},
                  {"FAIL", kFaults},
                  {"JITTER_US", "20"},
                  {"OUTPUT", folder.path()},
                  {"LOG", folder.path() + "/log"},
                  {"SEED", "3"}},
                 &Stress);
}

}  // namespace
}  // namespace ebbtide::phantom
