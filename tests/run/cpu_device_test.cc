// The device made of host memory: copies keep the order of their stream, and no pool is larger than the host allows.
#include "run/device/cpu_device.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ebbtide::run {
namespace {

TEST(CpuDevice, CopiesKeepTheOrderOfTheirStream) {
  const auto device = *MakeCpuDevice({.capacity = 1 << 20, .to_device = 50e9, .to_host = 50e9});
  const auto host = *device->MakeHostMemory(1 << 20);
  std::fill_n(device->At(0), 1000, std::byte{1});
  std::vector<Ticket> tickets;
  // Each copy goes on from where the one before it ended: the first byte reaches the last place only in order.
  for (int i = 0; i < 100; ++i) tickets.push_back(*device->CopyOut(i, host->data() + i, 1));
  ASSERT_TRUE(device->Await(tickets.back()));
  EXPECT_TRUE(std::all_of(host->data(), host->data() + 100, [](std::byte b) { return b == std::byte{1}; }));
  ASSERT_TRUE(device->Await(*device->CopyIn(host->data(), 5000, 100)));
  EXPECT_EQ(*device->At(5099), std::byte{1});
  EXPECT_EQ(*device->At(5100), std::byte{0});
}

TEST(CpuDevice, ReadsAndWrites) {
  const auto device = *MakeCpuDevice({.capacity = 100});
  std::vector<std::byte> bytes(40, std::byte{7});
  ASSERT_TRUE(device->Write(bytes.data(), 60, 40));
  std::ranges::fill(bytes, std::byte{0});
  ASSERT_TRUE(device->Read(60, bytes.data(), 40));
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{7}; }));
  EXPECT_EQ(device->capacity(), 100);
}

TEST(CpuDevice, NoPoolOfAnySize) {
  EXPECT_FALSE(MakeCpuDevice({.capacity = -1}));
  EXPECT_FALSE(MakeCpuDevice({.capacity = kTooLarge + 1}));
  EXPECT_TRUE(MakeCpuDevice({.capacity = 0}));
}

}  // namespace
}  // namespace ebbtide::run
