// Virtual memory management: reserve, create, map, take back; and memory shared with another process.
#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kPage = 2 * kMiB;

CUmemAllocationProp OnDevice(bool shareable = false) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  if (shareable) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

CUmemGenericAllocationHandle Create(std::size_t bytes, bool shareable = false) {
  CUmemAllocationProp properties = OnDevice(shareable);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, bytes, &properties, 0), CUDA_SUCCESS);
  return handle;
}

CUdeviceptr Reserve(std::size_t bytes) {
  CUdeviceptr begin = 0;
  EXPECT_EQ(cuMemAddressReserve(&begin, bytes, 0, 0, 0), CUDA_SUCCESS);
  return begin;
}

CUresult SetAccess(CUdeviceptr begin, std::size_t bytes) {
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return cuMemSetAccess(begin, bytes, &access, 1);
}

TEST(Vmm, AddressesCostNothingAndMemoryDoes) {
  InFreshProcess([] {
    StartDriver();
    std::size_t granularity = 0;
    CUmemAllocationProp properties = OnDevice();
    EXPECT_EQ(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
    EXPECT_EQ(granularity, kPage);
    CUdeviceptr begin = Reserve(std::size_t{1} << 36);  // far more than the device's 64 MiB
    EXPECT_EQ(begin % kPage, 0u);
    EXPECT_EQ(MemoryInfo().free, 60 * kMiB);
    CUmemGenericAllocationHandle handle = Create(3 * kPage);
    EXPECT_EQ(MemoryInfo().free, 54 * kMiB);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(MemoryInfo().free, 60 * kMiB);
    EXPECT_EQ(cuMemAddressFree(begin, std::size_t{1} << 36), CUDA_SUCCESS);
  });
}

TEST(Vmm, AMappingKeepsItsMemory) {
  InFreshProcess([] {
    StartDriver();
    CUdeviceptr begin = Reserve(8 * kPage);
    CUmemGenericAllocationHandle handle = Create(kPage);
    EXPECT_EQ(cuMemMap(begin, kPage, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(MemoryInfo().free, 58 * kMiB);
    EXPECT_EQ(cuMemUnmap(begin, kPage), CUDA_SUCCESS);
    EXPECT_EQ(MemoryInfo().free, 60 * kMiB);
  });
}

TEST(Vmm, ACopyMayCrossMappings) {
  InFreshProcess({{"BACKED", "64MiB"}}, [] {
    StartDriver();
    CUdeviceptr begin = Reserve(4 * kPage);
    for (int i = 0; i < 2; ++i) {
      CUmemGenericAllocationHandle handle = Create(kPage);
      EXPECT_EQ(cuMemMap(begin + i * kPage, kPage, 0, handle, 0), CUDA_SUCCESS);
      EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    }
    EXPECT_EQ(SetAccess(begin, 2 * kPage), CUDA_SUCCESS);
    const char text[] = "across the border of two pieces";
    CUdeviceptr at = begin + kPage - 10;
    char back[sizeof(text)] = {};
    EXPECT_EQ(cuMemcpyHtoD(at, text, sizeof(text)), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(back, at, sizeof(text)), CUDA_SUCCESS);
    EXPECT_STREQ(back, text);
    EXPECT_EQ(cuMemcpyHtoD(begin + 2 * kPage - 1, text, 2), CUDA_ERROR_INVALID_VALUE);  // nothing is mapped there
    EXPECT_EQ(cuMemUnmap(begin, 2 * kPage), CUDA_SUCCESS);                              // both at once
  });
}

TEST(Vmm, WhatDoesNotFitTogetherIsRefused) {
  InFreshProcess([] {
    StartDriver();
    CUdeviceptr begin = Reserve(4 * kPage), none = 0;
    CUmemGenericAllocationHandle handle = Create(2 * kPage), other = Create(kPage), nothing = 0;
    CUmemAllocationProp properties = OnDevice();
    EXPECT_EQ(cuMemCreate(&nothing, kPage + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemCreate(&nothing, 56 * kMiB, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAddressReserve(&none, kPage + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(begin + 1, kPage, 0, other, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(begin + 3 * kPage, 2 * kPage, 0, handle, 0),
              CUDA_ERROR_INVALID_VALUE);                                            // beyond the reservation
    EXPECT_EQ(cuMemMap(begin, 3 * kPage, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);  // more than there is
    EXPECT_EQ(cuMemMap(begin, 2 * kPage, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(begin + kPage, kPage, 0, other, 0), CUDA_ERROR_ALREADY_MAPPED);
    EXPECT_EQ(cuMemUnmap(begin, kPage), CUDA_ERROR_INVALID_VALUE);  // half a mapping
    EXPECT_EQ(SetAccess(begin, 3 * kPage), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressFree(begin, 4 * kPage), CUDA_ERROR_INVALID_VALUE);  // still mapped
    EXPECT_EQ(cuMemFree(begin), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemUnmap(begin, 2 * kPage), CUDA_SUCCESS);
    EXPECT_EQ(cuMemUnmap(begin, 2 * kPage), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAddressFree(begin, 4 * kPage), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  });
}

// What an allocator must do when the second of three mappings fails: all is as before.
TEST(Vmm, AFailedMappingCanBeRolledBack) {
  InFreshProcess({{"FAIL", "cuMemMap@2"}}, [] {
    StartDriver();
    CUdeviceptr begin = Reserve(3 * kPage);
    for (int attempt = 0; attempt < 2; ++attempt) {
      CUmemGenericAllocationHandle handles[3];
      int mapped = 0;
      for (auto& handle : handles) handle = Create(kPage);
      while (mapped < 3 && cuMemMap(begin + mapped * kPage, kPage, 0, handles[mapped], 0) == CUDA_SUCCESS) ++mapped;
      EXPECT_EQ(mapped, attempt == 0 ? 1 : 3);
      if (mapped > 0) {
        EXPECT_EQ(cuMemUnmap(begin, mapped * kPage), CUDA_SUCCESS);
      }
      for (auto handle : handles) EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
      EXPECT_EQ(MemoryInfo().free, 60 * kMiB);
    }
    EXPECT_EQ(cuMemAddressFree(begin, 3 * kPage), CUDA_SUCCESS);
  });
}

TEST(Vmm, RetainGivesAHandleOfWhatIsMapped) {
  InFreshProcess([] {
    StartDriver();
    CUdeviceptr begin = Reserve(kPage);
    CUmemGenericAllocationHandle handle = Create(kPage), again = 0, late = 0;
    EXPECT_EQ(cuMemMap(begin, kPage, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(begin + 5)), CUDA_SUCCESS);
    EXPECT_EQ(again, handle);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);  // it was held twice
    EXPECT_EQ(cuMemRetainAllocationHandle(&late, reinterpret_cast<void*>(begin)), CUDA_SUCCESS);
    EXPECT_EQ(cuMemUnmap(begin, kPage), CUDA_SUCCESS);
    EXPECT_EQ(MemoryInfo().free, 58 * kMiB);
    EXPECT_EQ(cuMemRelease(late), CUDA_SUCCESS);
    EXPECT_EQ(MemoryInfo().free, 60 * kMiB);
  });
}

void SendDescriptor(int socket, int fd) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
  iovec data = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  ASSERT_EQ(sendmsg(socket, &message, 0), 1);
}

int ReceiveDescriptor(int socket) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
  iovec data = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, 0) != 1) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
  return fd;
}

TEST(Vmm, AnotherProcessSeesSharedMemory) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  pid_t importer = fork();
  if (importer == 0) {
    close(sockets[0]);  // else the end of the other process would go unnoticed
    InFreshProcess({{"BACKED", "64MiB"}}, [&] {
      StartDriver();
      int fd = ReceiveDescriptor(sockets[1]);
      CUmemGenericAllocationHandle handle = 0;
      ASSERT_EQ(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                CUDA_SUCCESS);
      close(fd);
      CUdeviceptr begin = Reserve(kPage);
      ASSERT_EQ(cuMemMap(begin, kPage, 0, handle, 0), CUDA_SUCCESS);
      EXPECT_EQ(MemoryInfo().free, 60 * kMiB);  // it is the other process that is charged
      char text[6] = {};
      EXPECT_EQ(cuMemcpyDtoH(text, begin + 100, 5), CUDA_SUCCESS);
      EXPECT_STREQ(text, "hello");
      EXPECT_EQ(cuMemcpyHtoD(begin, "there", 5), CUDA_SUCCESS);
      char done = 1;
      EXPECT_EQ(write(sockets[1], &done, 1), 1);
    });
    _exit(testing::Test::HasFailure());
  }
  close(sockets[1]);
  InFreshProcess({{"BACKED", "64MiB"}}, [&] {
    StartDriver();
    CUdeviceptr begin = Reserve(kPage);
    CUmemGenericAllocationHandle handle = Create(kPage, true);
    ASSERT_EQ(cuMemMap(begin, kPage, 0, handle, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyHtoD(begin + 100, "hello", 5), CUDA_SUCCESS);
    int fd = -1;
    ASSERT_EQ(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_SUCCESS);
    SendDescriptor(sockets[0], fd);
    char done = 0, text[6] = {};
    ASSERT_EQ(read(sockets[0], &done, 1), 1);
    EXPECT_EQ(cuMemcpyDtoH(text, begin, 5), CUDA_SUCCESS);
    EXPECT_STREQ(text, "there");
    CUmemGenericAllocationHandle wrong = 0;
    EXPECT_EQ(cuMemImportFromShareableHandle(&wrong, reinterpret_cast<void*>(static_cast<std::intptr_t>(sockets[0])),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
              CUDA_ERROR_INVALID_VALUE);
  });
  int status = 0;
  waitpid(importer, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Vmm, PrivateMemoryIsNotExported) {
  InFreshProcess([] {
    StartDriver();
    int fd = -1;
    CUmemGenericAllocationHandle handle = Create(kPage);
    EXPECT_EQ(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              CUDA_ERROR_INVALID_VALUE);
    CUmemAllocationProp properties = {};
    EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&properties, handle), CUDA_SUCCESS);
    EXPECT_EQ(properties.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    EXPECT_EQ(properties.requestedHandleTypes, CU_MEM_HANDLE_TYPE_NONE);
  });
}

}  // namespace
}  // namespace ebbtide::phantom
