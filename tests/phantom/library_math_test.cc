// cuFFT, cuSOLVER, cuSPARSE and cuRAND of both generations.
#include <cuda_runtime_api.h>
#include <cufft.h>
#include <cufftXt.h>
#include <cusolverDn.h>
#include <cusparse.h>
#include <gtest/gtest.h>

#include "phantom/core/declare.h"
#include "tests/support/phantom/fresh_process.h"

extern "C" int curandCreateGenerator(void**, int);
extern "C" int curandGenerateUniform(void*, float*, std::size_t);
extern "C" int curandDestroyGenerator(void*);

namespace ebbtide::phantom {
namespace {

std::size_t Free() {
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

TEST(Fft, PlansTakeTheirWorkAreaUnlessToldNotTo) {
  InFreshProcess([] {
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
    std::size_t before = Free(), bytes = 0;
    cufftHandle plan = 0;
    ASSERT_EQ(cufftPlan1d(&plan, 1 << 19, CUFFT_C2C, 1), CUFFT_SUCCESS);
    EXPECT_EQ(before - Free(), 4u << 20);  // 8 bytes for each element
    EXPECT_EQ(cufftExecC2C(plan, static_cast<cufftComplex*>(memory), static_cast<cufftComplex*>(memory), CUFFT_FORWARD),
              CUFFT_SUCCESS);
    EXPECT_EQ(cufftDestroy(plan), CUFFT_SUCCESS);
    EXPECT_EQ(Free(), before);
    EXPECT_EQ(cufftDestroy(plan), CUFFT_INVALID_PLAN);

    ASSERT_EQ(cufftCreate(&plan), CUFFT_SUCCESS);
    ASSERT_EQ(cufftSetAutoAllocation(plan, 0), CUFFT_SUCCESS);
    long long n = 1000;
    ASSERT_EQ(
        cufftXtMakePlanMany(plan, 1, &n, nullptr, 1, n, CUDA_R_32F, nullptr, 1, n, CUDA_C_32F, 3, &bytes, CUDA_C_32F),
        CUFFT_SUCCESS);
    EXPECT_EQ(bytes, 3u * 501 * 8);  // the complex side of a real transform
    EXPECT_EQ(Free(), before);
    EXPECT_EQ(cufftXtExec(plan, memory, memory, CUFFT_FORWARD), CUFFT_NO_WORKSPACE);
    ASSERT_EQ(cufftSetWorkArea(plan, memory), CUFFT_SUCCESS);
    EXPECT_EQ(cufftXtExec(plan, memory, memory, CUFFT_FORWARD), CUFFT_SUCCESS);
  });
}

TEST(Fft, SizesFollowTheFactors) {
  InFreshProcess([] {
    std::size_t bytes = 0;
    EXPECT_EQ(cufftEstimate2d(8, 127, CUFFT_Z2Z, &bytes), CUFFT_SUCCESS);
    EXPECT_EQ(bytes, 8u * 127 * 16);
    EXPECT_EQ(cufftEstimate1d(131, CUFFT_C2C, 2, &bytes), CUFFT_SUCCESS);
    EXPECT_EQ(bytes, 2u * 512 * 8);  // 2 * 131 - 1 = 261, and the next power of two
    EXPECT_EQ(cufftEstimate1d(0, CUFFT_C2C, 1, &bytes), CUFFT_INVALID_SIZE);
    EXPECT_EQ(cufftEstimate1d(8, static_cast<cufftType>(1), 1, &bytes), CUFFT_INVALID_TYPE);
  });
}

TEST(Solver, SizesAndLaunches) {
  InFreshProcess([] {
    cusolverDnHandle_t handle = nullptr;
    float* memory = nullptr;
    int elements = 0;
    ASSERT_EQ(cusolverDnCreate(&handle), CUSOLVER_STATUS_SUCCESS);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), 1 << 20), cudaSuccess);
    EXPECT_EQ(cusolverDnSgeqrf_bufferSize(handle, 20, 10, memory, 20, &elements), CUSOLVER_STATUS_SUCCESS);
    EXPECT_EQ(elements, 320);
    EXPECT_EQ(cusolverDnSgeqrf_bufferSize(handle, 20, 10, memory, 19, &elements), CUSOLVER_STATUS_INVALID_VALUE);
    EXPECT_EQ(cusolverDnSsyevd_bufferSize(handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, 10, memory, 10,
                                          memory, &elements),
              CUSOLVER_STATUS_SUCCESS);
    EXPECT_EQ(elements, 261);  // 1 + 60 + 200
    std::size_t device = 0, host = 1;
    EXPECT_EQ(cusolverDnXpotrf_bufferSize(handle, nullptr, CUBLAS_FILL_MODE_LOWER, 10, CUDA_C_64F, memory, 10,
                                          CUDA_C_64F, &device, &host),
              CUSOLVER_STATUS_SUCCESS);
    EXPECT_EQ(device, 10u * 32 * 16);
    EXPECT_EQ(host, 0u);
    std::int64_t before = ebbtide_phantom_undeclared_launches();
    EXPECT_EQ(cusolverDnSgeqrf(handle, 20, 10, memory, 20, memory, memory, 320, nullptr), CUSOLVER_STATUS_SUCCESS);
    EXPECT_EQ(ebbtide_phantom_undeclared_launches(), before + 1);
    EXPECT_EQ(cusolverDnDestroy(handle), CUSOLVER_STATUS_SUCCESS);
    EXPECT_EQ(cusolverDnSgeqrf(handle, 20, 10, memory, 20, memory, memory, 320, nullptr),
              CUSOLVER_STATUS_NOT_INITIALIZED);
  });
}

TEST(Sparse, OperandsMustFit) {
  InFreshProcess([] {
    cusparseHandle_t handle = nullptr;
    void* memory = nullptr;
    ASSERT_EQ(cusparseCreate(&handle), CUSPARSE_STATUS_SUCCESS);
    ASSERT_EQ(cudaMalloc(&memory, 1 << 20), cudaSuccess);
    cusparseSpMatDescr_t a = nullptr;
    cusparseDnMatDescr_t b = nullptr, c = nullptr;
    ASSERT_EQ(cusparseCreateCsr(&a, 3, 5, 4, memory, memory, memory, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F),
              CUSPARSE_STATUS_SUCCESS);
    ASSERT_EQ(cusparseCreateDnMat(&b, 5, 2, 5, memory, CUDA_R_32F, CUSPARSE_ORDER_COL), CUSPARSE_STATUS_SUCCESS);
    ASSERT_EQ(cusparseCreateDnMat(&c, 3, 2, 3, memory, CUDA_R_32F, CUSPARSE_ORDER_COL), CUSPARSE_STATUS_SUCCESS);
    float one = 1;
    auto multiply = [&](cusparseOperation_t operation) {
      return cusparseSpMM(handle, operation, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, b, &one, c, CUDA_R_32F,
                          CUSPARSE_SPMM_ALG_DEFAULT, nullptr);
    };
    EXPECT_EQ(multiply(CUSPARSE_OPERATION_NON_TRANSPOSE), CUSPARSE_STATUS_SUCCESS);
    EXPECT_EQ(multiply(CUSPARSE_OPERATION_TRANSPOSE), CUSPARSE_STATUS_INVALID_VALUE);
    EXPECT_EQ(cusparseDestroySpMat(a), CUSPARSE_STATUS_SUCCESS);
    EXPECT_EQ(multiply(CUSPARSE_OPERATION_NON_TRANSPOSE), CUSPARSE_STATUS_INVALID_VALUE);
  });
}

TEST(Rand, GeneratorsLaunch) {
  InFreshProcess([] {
    void* generator = nullptr;
    EXPECT_EQ(curandCreateGenerator(&generator, 7), 103);  // no such type
    ASSERT_EQ(curandCreateGenerator(&generator, 100), 0);
    std::int64_t before = ebbtide_phantom_undeclared_launches();
    EXPECT_EQ(curandGenerateUniform(generator, nullptr, 10), 0);
    EXPECT_EQ(ebbtide_phantom_undeclared_launches(), before + 1);
    EXPECT_EQ(curandDestroyGenerator(generator), 0);
    EXPECT_EQ(curandGenerateUniform(generator, nullptr, 10), 101);
  });
}

}  // namespace
}  // namespace ebbtide::phantom
