// Short forms of driver calls that every test begins with.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace ebbtide::phantom {

// cuInit, and the primary context current in this thread.
inline void StartDriver() {
  CUcontext context = nullptr;
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

struct Info {
  std::size_t free = 0, total = 0;
};

inline Info MemoryInfo() {
  Info info;
  EXPECT_EQ(cuMemGetInfo(&info.free, &info.total), CUDA_SUCCESS);
  return info;
}

inline CUdeviceptr Allocate(std::size_t bytes) {
  CUdeviceptr pointer = 0;
  EXPECT_EQ(cuMemAlloc(&pointer, bytes), CUDA_SUCCESS);
  return pointer;
}

inline CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, flags), CUDA_SUCCESS);
  return stream;
}

inline CUevent NewEvent(unsigned flags = CU_EVENT_DEFAULT) {
  CUevent event = nullptr;
  EXPECT_EQ(cuEventCreate(&event, flags), CUDA_SUCCESS);
  return event;
}

}  // namespace ebbtide::phantom
