// The runtime API of both CUDA generations: what it adds to the driver's, and the calls whose shape differs between
// them.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/phantom/fresh_process.h"

// What nvcc's code calls when it is loaded and for <<<...>>>.
extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*,
                                       int*);
extern "C" void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int);
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void*);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*);

namespace ebbtide::phantom {
namespace {

constexpr std::size_t kMiB = 1 << 20;

TEST(Runtime, IsOfThisGeneration) {
  InFreshProcess([] {
    int version = 0;
    EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
    EXPECT_EQ(version / 1000, EBBTIDE_CUDA_GENERATION);
    EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
    EXPECT_GE(version, 13000);  // a driver serves both
  });
}

TEST(Runtime, PropertiesAreTheProfiles) {
  InFreshProcess([] {
    int count = 0, value = 0;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    EXPECT_EQ(count, 1);
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    EXPECT_STREQ(properties.name, "Test GPU");
    EXPECT_EQ(properties.totalGlobalMem, 64 * kMiB);
    EXPECT_EQ(properties.major, 8);
    EXPECT_EQ(properties.multiProcessorCount, 4);
    EXPECT_EQ(properties.sharedMemPerBlockOptin, 101376u);
    EXPECT_EQ(properties.maxThreadsDim[2], 64);
    EXPECT_EQ(properties.clusterLaunch, 0);  // from compute capability 9
    EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerMultiProcessor, 0), cudaSuccess);
    EXPECT_EQ(value, 2048);
    EXPECT_EQ(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(9999), 0), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
  });
}

TEST(Runtime, TheContextComesWithTheFirstCallThatNeedsIt) {
  InFreshProcess([] {
    int count = 0;
    cudaDeviceProp properties;
    cudaGetDeviceCount(&count);
    cudaGetDeviceProperties(&properties, 0);
    unsigned long long* none = nullptr;
    EXPECT_EQ(cudaFree(none), cudaSuccess);
    std::size_t free = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    EXPECT_EQ(free, 60 * kMiB);
    EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  });
}

TEST(Runtime, ErrorsAreRememberedByTheirThread) {
  InFreshProcess([] {
    void* pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, 1 << 30), cudaErrorMemoryAllocation);
    EXPECT_EQ(pointer, nullptr);
    std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaMalloc(&pointer, 1), cudaSuccess);  // success does not clear it
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
  });
}

TEST(Runtime, SizeZeroIsNoMemoryAndNoError) {
  InFreshProcess([] {
    void* pointer = &pointer;
    EXPECT_EQ(cudaMalloc(&pointer, 0), cudaSuccess);
    EXPECT_EQ(pointer, nullptr);
    EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault), cudaSuccess);
  });
}

TEST(Runtime, PointersAreKnownForWhatTheyAre) {
  InFreshProcess([] {
    void *device = nullptr, *pinned = nullptr, *managed = nullptr;
    std::vector<char> pageable(100), registered(100);
    ASSERT_EQ(cudaMalloc(&device, 100), cudaSuccess);
    ASSERT_EQ(cudaHostAlloc(&pinned, 100, cudaHostAllocPortable), cudaSuccess);
    ASSERT_EQ(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal), cudaSuccess);
    ASSERT_EQ(cudaHostRegister(registered.data(), 100, cudaHostRegisterDefault), cudaSuccess);
    auto type = [](void* pointer) {
      cudaPointerAttributes attributes;
      EXPECT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
      return attributes.type;
    };
    EXPECT_EQ(type(static_cast<char*>(device) + 99), cudaMemoryTypeDevice);
    EXPECT_EQ(type(pinned), cudaMemoryTypeHost);
    EXPECT_EQ(type(registered.data() + 50), cudaMemoryTypeHost);
    EXPECT_EQ(type(managed), cudaMemoryTypeManaged);
    EXPECT_EQ(type(pageable.data()), cudaMemoryTypeUnregistered);
    std::memset(managed, 1, 100);  // the host may use it
    unsigned flags = 0;
    EXPECT_EQ(cudaHostGetFlags(&flags, pinned), cudaSuccess);
    EXPECT_EQ(flags, static_cast<unsigned>(cudaHostAllocPortable));
    EXPECT_EQ(cudaHostRegister(registered.data() + 50, 100, 0), cudaErrorHostMemoryAlreadyRegistered);
    EXPECT_EQ(cudaHostUnregister(registered.data()), cudaSuccess);
    EXPECT_EQ(cudaHostUnregister(registered.data()), cudaErrorHostMemoryNotRegistered);
    EXPECT_EQ(type(registered.data()), cudaMemoryTypeUnregistered);
    EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
    EXPECT_EQ(cudaFree(managed), cudaSuccess);
  });
}

TEST(Runtime, ZerosReachPinnedMemoryWithoutCostingAny) {
  InFreshProcess([] {
    // From an empty device into 32 MiB of pinned memory, at an offset: whole pages are given back, the rest is set.
    constexpr std::size_t kBytes = 32 * kMiB;
    void *device = nullptr, *pinned = nullptr;
    ASSERT_EQ(cudaMalloc(&device, kBytes), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&pinned, kBytes), cudaSuccess);
    auto* bytes = static_cast<unsigned char*>(pinned);
    std::memset(bytes, 0xff, kBytes);
    ASSERT_EQ(cudaMemcpy(bytes + 100, device, kBytes - 200, cudaMemcpyDeviceToHost), cudaSuccess);
    std::size_t set = 0;
    for (std::size_t i = 0; i < kBytes; ++i) set += bytes[i] == 0xff;
    EXPECT_EQ(set, 200u);
    EXPECT_EQ(bytes[99], 0xff);
    EXPECT_EQ(bytes[100], 0);
    EXPECT_EQ(bytes[kBytes - 101], 0);
    EXPECT_EQ(bytes[kBytes - 100], 0xff);
  });
}

TEST(Runtime, KernelsAreKnownByTheirHostFunctions) {
  InFreshProcess([] {
    static const char kernel = 0, other = 0;
    __cudaRegisterFunction(nullptr, &kernel, nullptr, "my_kernel", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    EXPECT_EQ(cudaLaunchKernel(&kernel, dim3(4), dim3(256), nullptr, 0, nullptr), cudaSuccess);
    EXPECT_EQ(cudaLaunchKernel(&other, dim3(4), dim3(256), nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
    EXPECT_EQ(cudaLaunchKernel(&kernel, dim3(4), dim3(1025), nullptr, 0, nullptr), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaLaunchKernel(&kernel, dim3(0), dim3(32), nullptr, 0, nullptr), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaLaunchKernel(&kernel, dim3(1), dim3(32), nullptr, 49153, nullptr), cudaErrorInvalidValue);
    EXPECT_EQ(cudaFuncSetAttribute(&kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 101377),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaFuncSetAttribute(&kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 101376), cudaSuccess);
    EXPECT_EQ(cudaLaunchKernel(&kernel, dim3(1), dim3(32), nullptr, 101376, nullptr), cudaSuccess);
    cudaFuncAttributes attributes;
    EXPECT_EQ(cudaFuncGetAttributes(&attributes, &kernel), cudaSuccess);
    EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
    EXPECT_EQ(attributes.binaryVersion, 80);

    dim3 grid, block;
    std::size_t shared = 0;
    cudaStream_t stream = nullptr;
    __cudaPushCallConfiguration(dim3(1, 2, 3), dim3(4, 5, 6), 7, nullptr);
    EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
    EXPECT_EQ(grid.z, 3u);
    EXPECT_EQ(block.x, 4u);
    EXPECT_EQ(shared, 7u);
  });
}

TEST(Runtime, OccupancyFollowsFromTheProfile) {
  InFreshProcess([] {
    static const char kernel = 0;
    __cudaRegisterFunction(nullptr, &kernel, nullptr, "k", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    auto blocks = [&](int threads, std::size_t shared) {
      int value = -1;
      EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, &kernel, threads, shared), cudaSuccess);
      return value;
    };
    EXPECT_EQ(blocks(32, 0), 32);         // blocks of a multiprocessor
    EXPECT_EQ(blocks(1024, 0), 2);        // 2048 threads
    EXPECT_EQ(blocks(100, 0), 16);        // whole warps: 2048 / 128
    EXPECT_EQ(blocks(32, 24 * 1024), 4);  // 102400 / (24576 + 1024 that the system takes)
  });
}

TEST(Runtime, VariablesOnTheDevice) {
  InFreshProcess({{"BACKED", "1MiB"}}, [] {
    static char variable = 0, unknown = 0;
    __cudaRegisterVar(nullptr, &variable, nullptr, "v", 0, 8, 0, 0);
    std::size_t size = 0, free_before = 0, free_after = 0, total = 0;
    cudaMemGetInfo(&free_before, &total);
    EXPECT_EQ(cudaGetSymbolSize(&size, &variable), cudaSuccess);
    EXPECT_EQ(size, 8u);
    double in = 2.5, out = 0;
    EXPECT_EQ(cudaMemcpyToSymbol(&variable, &in, 8, 0, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemcpyFromSymbol(&out, &variable, 8, 0, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(out, 2.5);
    EXPECT_EQ(cudaMemcpyToSymbol(&variable, &in, 8, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetSymbolSize(&size, &unknown), cudaErrorInvalidSymbol);
    cudaMemGetInfo(&free_after, &total);
    EXPECT_EQ(free_before, free_after);  // it is part of the context
  });
}

TEST(Runtime, CaptureIsToldInBothForms) {
  InFreshProcess([] {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
    status = cudaStreamCaptureStatusActive;
    unsigned long long id = 1;
#if EBBTIDE_CUDA_GENERATION == 12
    EXPECT_EQ(cudaStreamGetCaptureInfo_v2(stream, &status, &id, nullptr, nullptr, nullptr), cudaSuccess);
#else
    EXPECT_EQ(cudaStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr, nullptr), cudaSuccess);
#endif
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
    EXPECT_EQ(id, 0u);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    cudaGraph_t graph = nullptr;
#if EBBTIDE_CUDA_GENERATION == 12
    EXPECT_EQ(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &graph, nullptr, nullptr), cudaSuccess);
#else
    EXPECT_EQ(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, nullptr, nullptr, nullptr), cudaSuccess);
#endif
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    EXPECT_GT(id, 0u);
    cudaGraph_t captured = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &captured), cudaSuccess);
    EXPECT_EQ(captured, graph);
    EXPECT_STREQ(cudaGetErrorName(cudaErrorStreamCaptureUnsupported), "cudaErrorStreamCaptureUnsupported");
  });
}

TEST(Runtime, StreamsAndEventsOfTheRuntime) {
  InFreshProcess([] {
    int least = 1, greatest = 1, priority = 1;
    EXPECT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
    EXPECT_LT(greatest, least);
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest - 10), cudaSuccess);
    EXPECT_EQ(cudaStreamGetPriority(stream, &priority), cudaSuccess);
    EXPECT_EQ(priority, greatest);
    cudaEvent_t begin = nullptr, end = nullptr;
    ASSERT_EQ(cudaEventCreate(&begin), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&end, cudaEventDefault), cudaSuccess);
    void *device = nullptr, *host = nullptr;
    ASSERT_EQ(cudaMalloc(&device, 1000000), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&host, 1000000), cudaSuccess);
    cudaEventRecord(begin, stream);
    cudaMemcpyAsync(device, host, 1000000, cudaMemcpyHostToDevice, stream);
    cudaEventRecord(end, stream);
    EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
    float milliseconds = 0;
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
    EXPECT_FLOAT_EQ(milliseconds, 1.001f);  // test-gpu: 1000 ns and a byte a nanosecond
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
  });
}

TEST(Runtime, PoolsOfTheRuntime) {
  InFreshProcess([] {
    cudaMemPool_t pool = nullptr;
    ASSERT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
    void* pointer = nullptr;
    ASSERT_EQ(cudaMallocAsync(&pointer, kMiB, nullptr), cudaSuccess);
    std::uint64_t used = 0;
    EXPECT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), cudaSuccess);
    EXPECT_EQ(used, kMiB);
    EXPECT_EQ(cudaFreeAsync(pointer, nullptr), cudaSuccess);
    EXPECT_EQ(cudaFreeAsync(pointer, nullptr), cudaErrorInvalidValue);
  });
}

// The driver's functions, in the form that the asked version had.
TEST(Runtime, FindsTheDriversFunctions) {
  InFreshProcess([] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    EXPECT_EQ(cudaGetDriverEntryPoint("cuMemMap", &found, cudaEnableDefault, &result), cudaSuccess);
    EXPECT_EQ(result, cudaDriverEntryPointSuccess);
    EXPECT_NE(found, nullptr);
    EXPECT_EQ(cudaGetDriverEntryPoint("cuNoSuchThing", &found, cudaEnableDefault, &result), cudaSuccess);
    EXPECT_EQ(result, cudaDriverEntryPointSymbolNotFound);
    EXPECT_EQ(found, nullptr);
  });
}

}  // namespace
}  // namespace ebbtide::phantom
