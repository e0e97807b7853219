// The CUDA device on the phantom's driver, whose memory has content and whose streams are late by chance.
#include "run/device/cuda_device.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <numeric>

#include "phantom/core/declare.h"
#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::run {
namespace {

using phantom::InFreshProcess;
using phantom::MemoryInfo;
using phantom::StartDriver;

constexpr Bytes kMiB = 1 << 20;

std::vector<std::byte> Pattern(Bytes bytes, unsigned seed) {
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  for (std::byte& byte : out) byte = static_cast<std::byte>((seed = seed * 1664525u + 1013904223u) >> 24);
  return out;
}

// Out, over its place, in again: to another place, or the same.
void RoundTrip(CudaDevice& device, HostMemory& host, Bytes to) {
  const Bytes size = 300'000;
  const std::vector<std::byte> a = Pattern(size, 1), b = Pattern(size, 2);
  std::vector<std::byte> found(a.size());
  const Used writes[] = {{0, size, true}};
  ASSERT_TRUE(device.Write(a.data(), 0, size));
  const Result<Ticket> out = device.CopyOut(0, host.data(), size);
  ASSERT_TRUE(out);
  ASSERT_TRUE(device.Await(*out));
  ASSERT_TRUE(device.BeginOp("overwrites", writes));
  device.EndOp();
  ASSERT_TRUE(device.Write(b.data(), 0, size));
  const Result<Ticket> in = device.CopyIn(host.data(), to, size);
  ASSERT_TRUE(in);
  ASSERT_TRUE(device.Await(*in));
  ASSERT_TRUE(device.Read(to, found.data(), size));
  EXPECT_EQ(found, a);
  ASSERT_TRUE(device.Read(0, found.data(), size));
  EXPECT_EQ(found, to == 0 ? a : b);
}

TEST(CudaDevice, ContentsComeBack) {
  for (const char* seed : {"1", "2", "3", "4"}) {
    InFreshProcess({{"BACKED", "64MiB"}, {"JITTER_US", "300"}, {"SEED", seed}, {"CHECK", "race"}}, [] {
      const auto device = *MakeCudaDevice({.capacity = 4 * kMiB});
      const auto host = *device->MakeHostMemory(kMiB);
      RoundTrip(*device, *host, kMiB);
      RoundTrip(*device, *host, 0);
      device->Drain();
      EXPECT_EQ(ebbtide_phantom_race_count(), 0);
    });
  }
}

TEST(CudaDevice, PinsWhatItMayAndCopiesTheRestAllTheSame) {
  // 1 MiB is 256 pages: none, 25 of them (10 %, rounded down), half, all.
  for (const auto& [limit, pinned] :
       std::vector<std::pair<Bytes, Bytes>>{{0, 0}, {kMiB / 10, 25 * 4096}, {kMiB / 2, kMiB / 2}, {-1, kMiB}}) {
    InFreshProcess({{"BACKED", "64MiB"}, {"JITTER_US", "200"}}, [limit, pinned] {
      const auto device = *MakeCudaDevice({.capacity = 4 * kMiB, .pinned_limit = limit});
      {
        const auto host = *device->MakeHostMemory(kMiB);
        EXPECT_EQ(device->pinned(), pinned);
        RoundTrip(*device, *host, kMiB);
      }
      EXPECT_EQ(device->pinned(), 0);
    });
  }
}

TEST(CudaDevice, PinsLessWhereTheSystemRefusesMore) {
  InFreshProcess({{"BACKED", "64MiB"}, {"FAIL", "cuMemHostRegister@1"}}, [] {
    const auto device = *MakeCudaDevice({.capacity = 4 * kMiB});
    const auto host = *device->MakeHostMemory(kMiB);
    EXPECT_EQ(device->pinned(), kMiB / 2);
    RoundTrip(*device, *host, kMiB);
  });
}

TEST(CudaDevice, GivesEverythingBack) {
  InFreshProcess([] {
    StartDriver();
    const std::size_t before = MemoryInfo().free;
    {
      const auto device = *MakeCudaDevice({.capacity = 8 * kMiB});
      EXPECT_EQ(MemoryInfo().free, before - 8 * kMiB);
    }
    EXPECT_EQ(MemoryInfo().free, before);
    const auto refused = MakeCudaDevice({.capacity = 1024 * kMiB});  // the GPU has 64 MiB
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "device cuda: no memory for a pool of 1073741824 bytes (1.00 GiB): CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_EQ(MemoryInfo().free, before);
  });
}

// Two ops that use different memory; a copy that uses the first one's.
TEST(CudaDevice, WaitsOnlyForWhatIsTouched) {
  InFreshProcess({{"CHECK", "race"}}, [] {
    const auto device = *MakeCudaDevice({.capacity = 4 * kMiB});
    const auto host = *device->MakeHostMemory(kMiB);
    const auto op = [&](Bytes address, bool writes) {
      const Used used[] = {{address, 4096, writes}};
      ASSERT_TRUE(device->BeginOp("op", used));
      device->EndOp();
    };
    op(0, true);
    ASSERT_TRUE(device->CopyOut(0, host->data(), 4096));
    EXPECT_EQ(device->waits(), 1);  // the copy for the op
    op(8192, true);
    op(0, false);
    EXPECT_EQ(device->waits(), 1);  // other memory; reads beside reads
    op(0, true);
    EXPECT_EQ(device->waits(), 2);  // compute for the copy
    ASSERT_TRUE(device->CopyIn(host->data(), 0, 4096));
    EXPECT_EQ(device->waits(), 3);  // for the op, which has waited for the copy out
    op(0, false);
    EXPECT_EQ(device->waits(), 4);
    ASSERT_TRUE(device->CopyOut(0, host->data(), 4096));
    EXPECT_EQ(device->waits(), 5);  // for the read, and so for the copy in before it
    device->Drain();
    op(0, true);
    EXPECT_EQ(device->waits(), 5);
    EXPECT_EQ(ebbtide_phantom_race_count(), 0);
  });
}

TEST(CudaDevice, CopiesRunBesideCompute) {
  InFreshProcess([] {
    const auto device = *MakeCudaDevice({.capacity = 4 * kMiB});
    const auto host = *device->MakeHostMemory(kMiB);
    device->StartClock();
    const Result<Ticket> in = device->CopyIn(host->data(), 0, 1'000'000);  // 1 ms at a byte per nanosecond
    const Nanos begin = device->Mark();
    ASSERT_TRUE(device->BeginOp("op", {}));
    ebbtide_phantom_kernel(nullptr, "op", 3'000'000);
    device->EndOp();
    const Nanos end = device->Mark();
    device->Drain();
    EXPECT_EQ(device->When(end) - device->When(begin), 3'000'000);
    const std::vector<CopySpan> copies = device->TakeCopies();
    ASSERT_EQ(copies.size(), 1u);
    EXPECT_EQ(copies[0].ticket, *in);
    EXPECT_EQ(copies[0].end - copies[0].begin, 1'001'000);  // with its latency
    EXPECT_LT(copies[0].end, device->When(end));
  });
}

}  // namespace
}  // namespace ebbtide::run
