// Stream-ordered memory: growth, reuse between streams, thresholds.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

constexpr std::size_t kMiB = 1 << 20;

CUdeviceptr AllocateAsync(std::size_t bytes, CUstream stream) {
  CUdeviceptr pointer = 0;
  EXPECT_EQ(cuMemAllocAsync(&pointer, bytes, stream), CUDA_SUCCESS);
  return pointer;
}

CUmemoryPool DefaultPool() {
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  return pool;
}

std::uint64_t Get(CUmemPool_attribute attribute) {
  std::uint64_t value = 0;
  EXPECT_EQ(cuMemPoolGetAttribute(DefaultPool(), attribute, &value), CUDA_SUCCESS);
  return value;
}

void Set(CUmemPool_attribute attribute, std::uint64_t value) {
  EXPECT_EQ(cuMemPoolSetAttribute(DefaultPool(), attribute, &value), CUDA_SUCCESS);
}

// Keeps a stream busy until it is told otherwise.
struct Blocker {
  std::atomic<bool> go{false};
  void Block(CUstream stream) {
    cuLaunchHostFunc(
        stream,
        [](void* self) {
          while (!static_cast<Blocker*>(self)->go) std::this_thread::yield();
        },
        this);
  }
};

TEST(Pools, GrowByThirtyTwoMebibytes) {
  InFreshProcess([] {
    StartDriver();
    CUstream stream = NewStream();
    CUdeviceptr a = AllocateAsync(1000, stream), b = AllocateAsync(5 * kMiB, stream);
    EXPECT_EQ(Get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * kMiB);
    EXPECT_EQ(Get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024 + 5 * kMiB);
    EXPECT_EQ(MemoryInfo().free, 28 * kMiB);
    EXPECT_EQ(cuMemFreeAsync(a, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(b, stream), CUDA_SUCCESS);
    EXPECT_EQ(Get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
    EXPECT_EQ(Get(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024 + 5 * kMiB);
    EXPECT_EQ(Get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * kMiB);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);  // the threshold is 0: all goes back
    EXPECT_EQ(Get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
    EXPECT_EQ(MemoryInfo().free, 60 * kMiB);
  });
}

TEST(Pools, KeepUpToTheirThreshold) {
  InFreshProcess([] {
    StartDriver();
    CUstream stream = NewStream();
    Set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 32 * kMiB);
    CUdeviceptr a = AllocateAsync(32 * kMiB, stream), none = 0;
    EXPECT_EQ(cuMemAllocAsync(&none, 1, stream), CUDA_ERROR_OUT_OF_MEMORY);  // 28 MiB are left, 32 are wanted
    EXPECT_EQ(cuMemFreeAsync(a, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(Get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * kMiB);
    EXPECT_EQ(cuMemPoolTrimTo(DefaultPool(), 32 * kMiB - 1), CUDA_SUCCESS);
    EXPECT_EQ(Get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
    EXPECT_EQ(Get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 32 * kMiB);
    Set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
    EXPECT_EQ(Get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0u);
  });
}

TEST(Pools, MemoryOfOneStreamIsReusedAtOnce) {
  InFreshProcess([] {
    StartDriver();
    CUstream stream = NewStream();
    Blocker blocker;
    blocker.Block(stream);
    CUdeviceptr a = AllocateAsync(20 * kMiB, stream);
    EXPECT_EQ(cuMemFreeAsync(a, stream), CUDA_SUCCESS);
    EXPECT_EQ(AllocateAsync(20 * kMiB, stream), a);  // the free has not happened yet, but is before it
    blocker.go = true;
  });
}

TEST(Pools, MemoryOfAnotherStreamIsReusedAfterAWait) {
  InFreshProcess([] {
    StartDriver();
    CUstream first = NewStream(), second = NewStream();
    CUdeviceptr a = AllocateAsync(30 * kMiB, first);
    Blocker blocker;
    blocker.Block(first);
    EXPECT_EQ(cuMemFreeAsync(a, first), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(second), CUDA_SUCCESS);
    CUdeviceptr b = AllocateAsync(30 * kMiB, second);
    EXPECT_EQ(b, a);
    EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);  // the wait that was put in
    blocker.go = true;
    EXPECT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(b, second), CUDA_SUCCESS);
  });
}

TEST(Pools, WithoutReuseTheyGrowInstead) {
  InFreshProcess([] {
    StartDriver();
    for (auto attribute : {CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                           CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES}) {
      int off = 0;
      EXPECT_EQ(cuMemPoolSetAttribute(DefaultPool(), attribute, &off), CUDA_SUCCESS);
    }
    CUstream first = NewStream(), second = NewStream();
    CUdeviceptr a = AllocateAsync(8 * kMiB, first);
    CUdeviceptr rest = AllocateAsync(24 * kMiB, first);
    EXPECT_EQ(cuMemFreeAsync(a, first), CUDA_SUCCESS);
    CUdeviceptr none = 0;
    EXPECT_EQ(cuMemAllocAsync(&none, 8 * kMiB, second), CUDA_ERROR_OUT_OF_MEMORY);  // 28 MiB are left, 32 are wanted
    EXPECT_EQ(AllocateAsync(8 * kMiB, first), a);
    EXPECT_EQ(cuMemFreeAsync(rest, first), CUDA_SUCCESS);
  });
}

TEST(Pools, GiveWayToOrdinaryAllocations) {
  InFreshProcess([] {
    StartDriver();
    Set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~std::uint64_t{0});
    CUdeviceptr a = AllocateAsync(20 * kMiB, nullptr);
    EXPECT_EQ(cuMemFreeAsync(a, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(MemoryInfo().free, 28 * kMiB);
    Allocate(40 * kMiB);  // takes the pool's unused 32 MiB
    EXPECT_EQ(Get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  });
}

TEST(Pools, OfTheProgramsOwn) {
  InFreshProcess([] {
    StartDriver();
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool pool = nullptr, found = nullptr;
    ASSERT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    EXPECT_EQ(cuDeviceSetMemPool(0, pool), CUDA_SUCCESS);
    CUdeviceptr a = AllocateAsync(kMiB, nullptr), b = 0;
    EXPECT_EQ(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a), CUDA_SUCCESS);
    EXPECT_EQ(found, pool);
    EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAllocFromPoolAsync(&b, kMiB, pool, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuDeviceGetMemPool(&found, 0), CUDA_SUCCESS);
    EXPECT_EQ(found, DefaultPool());
    EXPECT_EQ(MemoryInfo().free, 28 * kMiB);  // what was allocated from it is still there
    EXPECT_EQ(cuMemFree(a), CUDA_SUCCESS);    // cuMemFree takes it too
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(MemoryInfo().free, 60 * kMiB);
    EXPECT_EQ(cuMemPoolDestroy(DefaultPool()), CUDA_ERROR_INVALID_VALUE);
  });
}

}  // namespace
}  // namespace ebbtide::phantom
