// Order: streams, events, the legacy default stream, host functions, and time on the virtual clock.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "phantom/core/declare.h"
#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

constexpr std::size_t kMiB = 1 << 20;

// A host function that holds its stream until it is opened. What it waits on is shared with the function, which may
// still be on its way out when the test's own gate is gone.
class Gate {
 public:
  void Close(CUstream stream) {
    EXPECT_EQ(cuLaunchHostFunc(stream, &Wait, new std::shared_ptr<Latch>(latch_)), CUDA_SUCCESS);
  }
  void Open() {
    std::lock_guard lock(latch_->mutex);
    latch_->open = true;
    latch_->changed.notify_all();
  }

 private:
  struct Latch {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };

  static void Wait(void* owner) {
    std::unique_ptr<std::shared_ptr<Latch>> latch(static_cast<std::shared_ptr<Latch>*>(owner));
    std::unique_lock lock((*latch)->mutex);
    (*latch)->changed.wait(lock, [&] { return (*latch)->open; });
  }

  std::shared_ptr<Latch> latch_ = std::make_shared<Latch>();
};

TEST(Streams, WorkIsInOrderAndSeenWhenOver) {
  InFreshProcess([] {
    StartDriver();
    CUstream stream = NewStream();
    CUevent event = NewEvent();
    EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);  // never recorded
    EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
    Gate gate;
    gate.Close(stream);
    EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    gate.Open();
    EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
    EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
  });
}

TEST(Streams, AWaitHoldsOnlyTheWaiter) {
  InFreshProcess([] {
    StartDriver();
    CUstream first = NewStream(), second = NewStream(), third = NewStream();
    CUevent event = NewEvent();
    Gate gate;
    gate.Close(first);
    EXPECT_EQ(cuEventRecord(event, first), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(second, event, 0), CUDA_SUCCESS);
    // A later record of the same event does not change what was waited for.
    EXPECT_EQ(cuEventRecord(event, third), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuStreamSynchronize(third), CUDA_SUCCESS);
    gate.Open();
    EXPECT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
  });
}

TEST(Streams, TheLegacyStreamAndBlockingStreamsWaitForEachOther) {
  InFreshProcess([] {
    StartDriver();
    CUstream blocking = NewStream(CU_STREAM_DEFAULT), free = NewStream();
    Gate gate;
    gate.Close(blocking);
    EXPECT_EQ(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuStreamQuery(free), CUDA_SUCCESS);
    gate.Open();
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    Gate legacy;
    legacy.Close(nullptr);
    EXPECT_EQ(cuStreamQuery(free), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    legacy.Open();
    EXPECT_EQ(cuStreamSynchronize(blocking), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
  });
}

TEST(Streams, EveryThreadHasItsOwn) {
  InFreshProcess([] {
    StartDriver();
    unsigned long long here = 0, there = 0;
    EXPECT_EQ(cuStreamGetId(CU_STREAM_PER_THREAD, &here), CUDA_SUCCESS);
    std::thread([&] {
      StartDriver();
      EXPECT_EQ(cuStreamGetId(CU_STREAM_PER_THREAD, &there), CUDA_SUCCESS);
    }).join();
    EXPECT_NE(here, there);
  });
}

TEST(Streams, WorkOfADestroyedStreamIsStillDone) {
  InFreshProcess([] {
    StartDriver();
    CUstream stream = NewStream(), other = NewStream();
    CUevent event = NewEvent();
    Gate gate;
    gate.Close(stream);
    EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    gate.Open();
    EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  });
}

// With jitter the work begins late: without a wait for it, memory would still be held.
TEST(Streams, TheDeviceWaitsForDestroyedStreamsToo) {
  InFreshProcess({{"BACKED", "64MiB"}, {"JITTER_US", "2000"}}, [] {
    StartDriver();
    std::size_t before = MemoryInfo().free;
    for (unsigned flags : {CU_STREAM_NON_BLOCKING, CU_STREAM_DEFAULT}) {
      CUstream stream = NewStream(flags);
      CUdeviceptr pointer = Allocate(4 << 20);
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(cuMemsetD8Async(pointer, 1, 4 << 20, stream), CUDA_SUCCESS);
      }
      EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
      EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
      EXPECT_EQ(MemoryInfo().free, before);
    }
  });
}

TEST(Streams, WrongHandlesAreErrors) {
  InFreshProcess([] {
    StartDriver();
    auto stream = reinterpret_cast<CUstream>(0x1234);
    auto event = reinterpret_cast<CUevent>(0x1234);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuEventRecord(event, nullptr), CUDA_ERROR_INVALID_HANDLE);
    CUevent destroyed = NewEvent();
    EXPECT_EQ(cuEventDestroy(destroyed), CUDA_SUCCESS);
    EXPECT_EQ(cuEventDestroy(destroyed), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(Streams, PinnedCopiesAreAsynchronousAndPageableOnesAreNot) {
  InFreshProcess({{"BACKED", "64MiB"}}, [] {
    StartDriver();
    CUstream stream = NewStream();
    CUdeviceptr device = Allocate(4);
    void* pinned = nullptr;
    ASSERT_EQ(cuMemAllocHost(&pinned, 4), CUDA_SUCCESS);
    auto* number = static_cast<int*>(pinned);
    *number = 1;
    Gate gate;
    gate.Close(stream);
    ASSERT_EQ(cuMemcpyHtoDAsync(device, pinned, 4, stream), CUDA_SUCCESS);
    *number = 2;  // the copy has not begun: it takes this
    gate.Open();
    int back = 0;
    ASSERT_EQ(cuMemcpyDtoHAsync(&back, device, 4, stream), CUDA_SUCCESS);
    EXPECT_EQ(back, 2);  // pageable: over when the call returns
  });
}

// ---- The virtual clock of test-gpu: 1 byte/ns to the device, 0.5 back, 1000 ns before each copy.

float Milliseconds(CUevent from, CUevent to) {
  float value = -1;
  EXPECT_EQ(cuEventElapsedTime(&value, from, to), CUDA_SUCCESS);
  return value;
}

struct Pinned {
  explicit Pinned(std::size_t bytes) { EXPECT_EQ(cuMemAllocHost(&pointer, bytes), CUDA_SUCCESS); }
  void* pointer = nullptr;
};

TEST(VirtualClock, CopiesTakeLatencyAndBytesOverBandwidth) {
  InFreshProcess([] {
    StartDriver();
    CUstream stream = NewStream();
    CUevent a = NewEvent(), b = NewEvent(), c = NewEvent();
    CUdeviceptr device = Allocate(1000000);
    Pinned host(1000000);
    cuEventRecord(a, stream);
    cuMemcpyHtoDAsync(device, host.pointer, 1000000, stream);
    cuEventRecord(b, stream);
    cuMemcpyDtoHAsync(host.pointer, device, 1000000, stream);
    cuEventRecord(c, stream);
    EXPECT_FLOAT_EQ(Milliseconds(a, b), 1.001f);  // 1000 + 1000000 ns
    EXPECT_FLOAT_EQ(Milliseconds(b, c), 2.001f);  // 1000 + 1000000 / 0.5 ns
    EXPECT_EQ(ebbtide_phantom_now(), 0);          // the host has not waited
    cuStreamSynchronize(stream);
    EXPECT_EQ(ebbtide_phantom_now(), 3002000);
  });
}

TEST(VirtualClock, TheTwoDirectionsOverlapAndOneDirectionDoesNot) {
  InFreshProcess([] {
    StartDriver();
    CUstream s = NewStream(), t = NewStream(), u = NewStream();
    CUevent begin = NewEvent(), in = NewEvent(), in2 = NewEvent(), out = NewEvent();
    CUdeviceptr device = Allocate(3000000);
    Pinned host(3000000);
    cuEventRecord(begin, s);
    cuMemcpyHtoDAsync(device, host.pointer, 1000000, s);
    cuMemcpyHtoDAsync(device + 1000000, host.pointer, 1000000, t);
    cuMemcpyDtoHAsync(host.pointer, device + 2000000, 1000000, u);
    cuEventRecord(in, s);
    cuEventRecord(in2, t);
    cuEventRecord(out, u);
    EXPECT_FLOAT_EQ(Milliseconds(begin, in), 1.001f);
    EXPECT_FLOAT_EQ(Milliseconds(begin, in2), 2.002f);  // behind the first on the one engine
    EXPECT_FLOAT_EQ(Milliseconds(begin, out), 2.001f);
  });
}

TEST(VirtualClock, ACopyThatIsReadyFirstGoesFirst) {
  InFreshProcess([] {
    StartDriver();
    CUstream s = NewStream(), t = NewStream();
    CUevent begin = NewEvent(), late = NewEvent(), early = NewEvent();
    CUdeviceptr device = Allocate(2000000);
    Pinned host(2000000);
    cuEventRecord(begin, s);
    ebbtide_phantom_kernel(s, "slow", 5000000);
    cuMemcpyHtoDAsync(device, host.pointer, 999000, s);            // ready at 5 ms
    cuMemcpyHtoDAsync(device + 1000000, host.pointer, 999000, t);  // submitted later, ready at 0
    cuEventRecord(late, s);
    cuEventRecord(early, t);
    EXPECT_FLOAT_EQ(Milliseconds(begin, early), 1.0f);
    EXPECT_FLOAT_EQ(Milliseconds(begin, late), 6.0f);
  });
}

TEST(VirtualClock, WaitsAndKernelsMoveTime) {
  InFreshProcess({{"KERNEL_US", "3"}}, [] {
    StartDriver();
    CUstream s = NewStream(), t = NewStream();
    CUevent begin = NewEvent(), middle = NewEvent(), end = NewEvent();
    CUmodule module = nullptr;
    CUfunction kernel = nullptr;
    ASSERT_EQ(cuModuleLoadData(&module, ".version 8.0"), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&kernel, module, "k"), CUDA_SUCCESS);
    cuEventRecord(begin, s);
    for (int i = 0; i < 10; ++i) cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, s, nullptr, nullptr);
    cuEventRecord(middle, s);
    ebbtide_phantom_kernel(t, "k", 1000);
    cuStreamWaitEvent(t, middle, 0);
    ebbtide_phantom_kernel(t, "k", 1000);
    cuEventRecord(end, t);
    EXPECT_FLOAT_EQ(Milliseconds(begin, middle), 0.030f);
    EXPECT_FLOAT_EQ(Milliseconds(begin, end), 0.031f);
  });
}

TEST(VirtualClock, TimingWantsEventsThatWereRecordedWithIt) {
  InFreshProcess([] {
    StartDriver();
    CUevent timed = NewEvent(), other = NewEvent(), untimed = NewEvent(CU_EVENT_DISABLE_TIMING);
    float value = 0;
    cuEventRecord(timed, nullptr);
    EXPECT_EQ(cuEventElapsedTime(&value, timed, other), CUDA_ERROR_INVALID_HANDLE);
    cuEventRecord(untimed, nullptr);
    EXPECT_EQ(cuEventElapsedTime(&value, timed, untimed), CUDA_ERROR_INVALID_HANDLE);
    Gate gate;
    gate.Close(nullptr);
    cuEventRecord(other, nullptr);
    EXPECT_EQ(cuEventElapsedTime(&value, timed, other), CUDA_ERROR_NOT_READY);
    gate.Open();
  });
}

}  // namespace
}  // namespace ebbtide::phantom
