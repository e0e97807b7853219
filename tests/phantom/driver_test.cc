// What else the driver API offers: functions by name and version, modules, attributes, contexts, pointers; and NVML.
#include "tests/support/phantom/driver.h"

#include <cuda.h>
#include <gtest/gtest.h>
#include <nvml.h>

#include <cstring>
#include <thread>

#include "tests/support/phantom/fresh_process.h"

extern "C" CUresult cuMemAlloc_v2(CUdeviceptr*, std::size_t);
extern "C" CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr, const void*, std::size_t);
extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                              const CUgraphNode**, std::size_t*);

namespace ebbtide::phantom {
namespace {

constexpr std::size_t kMiB = 1 << 20;

void* Find(const char* name, int version, cuuint64_t flags, CUdriverProcAddressQueryResult expected) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult result;
  EXPECT_EQ(cuGetProcAddress(name, &found, version, flags, &result), CUDA_SUCCESS);
  EXPECT_EQ(result, expected) << name;
  return found;
}

TEST(EntryPoints, AreThoseOfTheVersion) {
  InFreshProcess([] {
    auto ok = CU_GET_PROC_ADDRESS_SUCCESS;
    EXPECT_EQ(Find("cuMemAlloc", 12000, 0, ok), reinterpret_cast<void*>(&cuMemAlloc_v2));
    EXPECT_NE(Find("cuMemAlloc", 3010, 0, ok), reinterpret_cast<void*>(&cuMemAlloc_v2));
    EXPECT_EQ(Find("cuStreamGetCaptureInfo", 12000, 0, ok), reinterpret_cast<void*>(&cuStreamGetCaptureInfo_v2));
    EXPECT_NE(Find("cuStreamGetCaptureInfo", 12030, 0, ok), reinterpret_cast<void*>(&cuStreamGetCaptureInfo_v2));
    EXPECT_EQ(Find("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, ok),
              reinterpret_cast<void*>(&cuMemcpyHtoD_v2_ptds));
    EXPECT_EQ(Find("cuMemAllocAsync", 10000, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT), nullptr);
    EXPECT_EQ(Find("cuMakeCoffee", 13000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND), nullptr);
  });
}

TEST(Modules, HaveTheKernelsTheyAreAskedFor) {
  InFreshProcess([] {
    StartDriver();
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, "just text"), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(cuModuleLoad(&module, "/no/such/file.cubin"), CUDA_ERROR_FILE_NOT_FOUND);
    ASSERT_EQ(cuModuleLoadData(&module, "//\n.version 8.0\n"), CUDA_SUCCESS);
    CUfunction kernel = nullptr, again = nullptr;
    ASSERT_EQ(cuModuleGetFunction(&kernel, module, "add_kernel"), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&again, module, "add_kernel"), CUDA_SUCCESS);
    EXPECT_EQ(kernel, again);
    const char* name = nullptr;
    EXPECT_EQ(cuFuncGetName(&name, kernel), CUDA_SUCCESS);
    EXPECT_STREQ(name, "add_kernel");
    EXPECT_EQ(cuLaunchKernel(kernel, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuLaunchKernel(kernel, 1, 1, 1, 2048, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    auto wrong = reinterpret_cast<CUfunction>(0x123);
    EXPECT_EQ(cuLaunchKernel(wrong, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
    int value = 0;
    EXPECT_EQ(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel), CUDA_SUCCESS);
    EXPECT_EQ(value, 1024);
    int grid = 0, block = 0;
    EXPECT_EQ(cuOccupancyMaxPotentialBlockSize(&grid, &block, kernel, nullptr, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(block, 1024);
    EXPECT_EQ(grid, 2 * 4);  // blocks on each of four multiprocessors
    EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&kernel, module, "add_kernel"), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(Contexts, TakeMemoryWhileTheyLive) {
  InFreshProcess([] {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    unsigned flags = 0;
    int active = 1;
    EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    EXPECT_EQ(active, 0);
    CUcontext primary = nullptr, made = nullptr, current = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr);
    EXPECT_EQ(cuCtxPushCurrent(primary), CUDA_SUCCESS);
    EXPECT_EQ(MemoryInfo().free, 60 * kMiB);  // one context, however often it is retained
    EXPECT_EQ(cuCtxCreate(&made, nullptr, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(MemoryInfo().free, 56 * kMiB);
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, made);
    std::thread([&] {
      EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
      EXPECT_EQ(current, nullptr);  // every thread has its own
    }).join();
    EXPECT_EQ(cuCtxDestroy(made), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(made), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(MemoryInfo().free, 60 * kMiB);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST(Pointers, HaveAttributes) {
  InFreshProcess([] {
    StartDriver();
    CUdeviceptr pointer = Allocate(1000), start = 0;
    CUmemorytype type;
    std::size_t size = 0;
    EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer + 1), CUDA_SUCCESS);
    EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
    EXPECT_EQ(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer + 1), CUDA_SUCCESS);
    EXPECT_EQ(start, pointer);
    EXPECT_EQ(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer), CUDA_SUCCESS);
    EXPECT_EQ(size, 1000u);
    int here = 0, ordinal = 0;
    auto host = reinterpret_cast<CUdeviceptr>(&here);
    EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host), CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void* data[] = {&ordinal, &size};
    EXPECT_EQ(cuPointerGetAttributes(2, attributes, data, host), CUDA_SUCCESS);
    EXPECT_EQ(ordinal, -2);
    EXPECT_EQ(size, 0u);
  });
}

TEST(Nvml, SeesTheDeviceAndItsMemory) {
  InFreshProcess([] {
    StartDriver();
    Allocate(10 * kMiB);
    ASSERT_EQ(nvmlInit(), NVML_SUCCESS);
    unsigned count = 0;
    EXPECT_EQ(nvmlDeviceGetCount(&count), NVML_SUCCESS);
    EXPECT_EQ(count, 1u);
    nvmlDevice_t device = nullptr, same = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByIndex(1, &device), NVML_ERROR_INVALID_ARGUMENT);
    ASSERT_EQ(nvmlDeviceGetHandleByIndex(0, &device), NVML_SUCCESS);
    char id[32] = {}, name[64] = {}, uuid[64] = {};
    EXPECT_EQ(cuDeviceGetPCIBusId(id, sizeof(id), 0), CUDA_SUCCESS);
    EXPECT_EQ(nvmlDeviceGetHandleByPciBusId(id, &same), NVML_SUCCESS);
    EXPECT_EQ(same, device);
    EXPECT_EQ(nvmlDeviceGetName(device, name, sizeof(name)), NVML_SUCCESS);
    EXPECT_STREQ(name, "Test GPU");
    EXPECT_EQ(nvmlDeviceGetName(device, name, 3), NVML_ERROR_INSUFFICIENT_SIZE);
    EXPECT_EQ(nvmlDeviceGetUUID(device, uuid, sizeof(uuid)), NVML_SUCCESS);
    EXPECT_EQ(std::strncmp(uuid, "GPU-", 4), 0);
    EXPECT_EQ(nvmlDeviceGetHandleByUUID(uuid, &same), NVML_SUCCESS);
    nvmlMemory_t memory = {};
    EXPECT_EQ(nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
    EXPECT_EQ(memory.total, 64 * kMiB);
    EXPECT_EQ(memory.used, 14 * kMiB);
    EXPECT_EQ(memory.free, 50 * kMiB);
    EXPECT_STREQ(nvmlErrorString(NVML_ERROR_NOT_FOUND), "Not Found");
  });
}

}  // namespace
}  // namespace ebbtide::phantom
