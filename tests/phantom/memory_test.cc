// Device memory through the driver API: sizes, capacity, and who may touch it.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "phantom/core/declare.h"
#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

constexpr std::size_t kMiB = 1 << 20;

TEST(Memory, TheContextIsPartOfWhatIsUsed) {
  InFreshProcess([] {
    StartDriver();
    auto [free, total] = MemoryInfo();
    EXPECT_EQ(total, 64 * kMiB);
    EXPECT_EQ(free, 60 * kMiB);  // 64 - 4 for the context
  });
}

TEST(Memory, LargeRequestsAreRoundedUpToTwoMebibytes) {
  InFreshProcess([] {
    StartDriver();
    CUdeviceptr pointer = Allocate(kMiB + 1);
    EXPECT_EQ(pointer % (2 * kMiB), 0u);
    EXPECT_EQ(MemoryInfo().free, 58 * kMiB);
    CUdeviceptr base = 0;
    std::size_t size = 0;
    EXPECT_EQ(cuMemGetAddressRange(&base, &size, pointer + 5), CUDA_SUCCESS);
    EXPECT_EQ(base, pointer);
    EXPECT_EQ(size, kMiB + 1);
    EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
    EXPECT_EQ(MemoryInfo().free, 60 * kMiB);
  });
}

TEST(Memory, SmallRequestsShareABlock) {
  InFreshProcess([] {
    StartDriver();
    // Steps of 512 bytes: 4096 of them fill a block of 2 MiB.
    std::vector<CUdeviceptr> small;
    for (int i = 0; i < 4096; ++i) small.push_back(Allocate(i % 512 + 1));
    EXPECT_EQ(MemoryInfo().free, 58 * kMiB);
    small.push_back(Allocate(1));
    EXPECT_EQ(MemoryInfo().free, 56 * kMiB);
    for (CUdeviceptr pointer : small) {
      EXPECT_EQ(pointer % 512, 0u);
      EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
    }
    EXPECT_EQ(MemoryInfo().free, 60 * kMiB);
  });
}

TEST(Memory, GapsOfABlockAreUsedAgain) {
  InFreshProcess([] {
    StartDriver();
    CUdeviceptr a = Allocate(512 << 10), b = Allocate(512 << 10), c = Allocate(kMiB);  // the whole block
    EXPECT_EQ(cuMemFree(a), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(b), CUDA_SUCCESS);
    EXPECT_EQ(Allocate(kMiB), a);  // a and b have become one gap
    EXPECT_EQ(MemoryInfo().free, 58 * kMiB);
    EXPECT_EQ(cuMemFree(c), CUDA_SUCCESS);
  });
}

TEST(Memory, ToTheLastByteAndNotOneMore) {
  InFreshProcess([] {
    StartDriver();
    CUdeviceptr none = 0;
    EXPECT_EQ(cuMemAlloc(&none, 60 * kMiB + 1), CUDA_ERROR_OUT_OF_MEMORY);
    CUdeviceptr all = Allocate(60 * kMiB);
    EXPECT_EQ(MemoryInfo().free, 0u);
    EXPECT_EQ(cuMemAlloc(&none, 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemFree(all), CUDA_SUCCESS);
    Allocate(60 * kMiB);
  });
}

TEST(Memory, NonsenseIsRefused) {
  InFreshProcess([] {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuMemAlloc(&pointer, 1), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc(&pointer, 1), CUDA_ERROR_INVALID_CONTEXT);
    StartDriver();
    EXPECT_EQ(cuMemAlloc(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAlloc(nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAlloc(&pointer, ~std::size_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
    pointer = Allocate(4 * kMiB);
    EXPECT_EQ(cuMemFree(pointer + 512), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
    int on_the_stack = 0;
    EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(&on_the_stack)), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Memory, HostCodeCannotTouchIt) {
  Ended ended = RunToTheEnd({}, [] {
    StartDriver();
    *reinterpret_cast<volatile char*>(Allocate(kMiB)) = 1;
  });
  EXPECT_TRUE(WIFSIGNALED(ended.status) || WIFEXITED(ended.status));  // a sanitizer reports it in its own way
  EXPECT_NE(ended.status, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_EQ(WTERMSIG(ended.status), SIGSEGV);
  EXPECT_THAT(ended.errors, testing::HasSubstr("host code touched device memory"));
#endif
}

TEST(Memory, BackedMemoryKeepsItsContent) {
  InFreshProcess({{"BACKED", "8MiB"}}, [] {
    StartDriver();
    CUdeviceptr pointer = Allocate(4 * kMiB);
    std::vector<char> out(4 * kMiB, 'x'), in(4 * kMiB);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(i * 7);
    EXPECT_EQ(cuMemcpyHtoD(pointer, out.data(), out.size()), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(in.data(), pointer, in.size()), CUDA_SUCCESS);
    EXPECT_EQ(in, out);
    EXPECT_EQ(std::memcmp(ebbtide_phantom_content(reinterpret_cast<void*>(pointer), 4 * kMiB), out.data(), 4 * kMiB),
              0);
    // What does not fit the 8 MiB has no content: it takes bytes and gives zeros.
    CUdeviceptr empty = Allocate(6 * kMiB);
    EXPECT_EQ(ebbtide_phantom_content(reinterpret_cast<void*>(empty), 1), nullptr);
    EXPECT_EQ(cuMemcpyDtoD(empty, pointer, 4 * kMiB), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(in.data(), empty, in.size()), CUDA_SUCCESS);
    EXPECT_EQ(in, std::vector<char>(4 * kMiB, 0));
  });
}

TEST(Memory, CopiesBeyondTheEndAreRefused) {
  InFreshProcess([] {
    StartDriver();
    CUdeviceptr pointer = Allocate(2 * kMiB);
    std::vector<char> host(4 * kMiB);
    EXPECT_EQ(cuMemcpyHtoD(pointer, host.data(), 2 * kMiB), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoD(pointer, host.data(), 2 * kMiB + 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoH(host.data(), pointer + kMiB, kMiB + 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD32(pointer, 1, kMiB / 2), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD32(pointer, 1, kMiB / 2 + 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD32(pointer + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);  // not aligned
    EXPECT_EQ(cuMemsetD8(reinterpret_cast<CUdeviceptr>(host.data()), 1, 1), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Memory, RowsOfPitchedMemory) {
  InFreshProcess({{"BACKED", "64MiB"}}, [] {
    StartDriver();
    CUdeviceptr pointer = 0;
    std::size_t pitch = 0;
    ASSERT_EQ(cuMemAllocPitch(&pointer, &pitch, 10, 4, 4), CUDA_SUCCESS);
    EXPECT_EQ(pitch, 512u);
    ASSERT_EQ(cuMemsetD2D8(pointer, pitch, 7, 10, 4), CUDA_SUCCESS);
    const char host[] = "abcdefgh";  // two rows of four
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host;
    copy.srcPitch = 4;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = pointer;
    copy.dstPitch = pitch;
    copy.dstXInBytes = 1;
    copy.dstY = 2;
    copy.WidthInBytes = 4;
    copy.Height = 2;
    ASSERT_EQ(cuMemcpy2D(&copy), CUDA_SUCCESS);
    char row[11] = {};
    ASSERT_EQ(cuMemcpyDtoH(row, pointer + 3 * pitch, 10), CUDA_SUCCESS);
    EXPECT_STREQ(row, "\7efgh\7\7\7\7\7");
    ASSERT_EQ(cuMemcpyDtoH(row, pointer + pitch, 10), CUDA_SUCCESS);
    EXPECT_STREQ(row, "\7\7\7\7\7\7\7\7\7\7");
  });
}

}  // namespace
}  // namespace ebbtide::phantom
