// cuBLAS and cuBLASLt of both generations: handles, products in stream order, results for the host, descriptors.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "phantom/core/declare.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

struct Matrices {
  Matrices() {
    EXPECT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), 1 << 20), cudaSuccess);
  }
  cublasHandle_t handle = nullptr;
  float* memory = nullptr;
  const float one = 1;
};

TEST(Blas, ProductsAreLaunchesWhoseShapesAreChecked) {
  InFreshProcess([] {
    Matrices m;
    auto multiply = [&](int lda, int ldb, int ldc) {  // 4 x 5 times 5 x 6
      return cublasSgemm(m.handle, CUBLAS_OP_N, CUBLAS_OP_T, 4, 6, 5, &m.one, m.memory, lda, m.memory, ldb, &m.one,
                         m.memory, ldc);
    };
    std::int64_t before = ebbtide_phantom_undeclared_launches();
    EXPECT_EQ(multiply(4, 6, 4), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(ebbtide_phantom_undeclared_launches(), before + 1);
    EXPECT_EQ(multiply(3, 6, 4), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(multiply(4, 5, 4), CUBLAS_STATUS_INVALID_VALUE);  // transposed: at least the 6 columns of the product
    EXPECT_EQ(multiply(4, 6, 3), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(cublasSsymm(m.handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, 4, 4, &m.one, m.memory, 4, m.memory, 4,
                          &m.one, m.memory, 4),
              CUBLAS_STATUS_SUCCESS);  // one of those that are made from the table
    EXPECT_EQ(ebbtide_phantom_undeclared_launches(), before + 2);
    EXPECT_EQ(cublasDestroy(m.handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(multiply(4, 6, 4), CUBLAS_STATUS_NOT_INITIALIZED);
  });
}

TEST(Blas, ResultsGoWhereTheHandleSays) {
  InFreshProcess({{"KERNEL_US", "10"}}, [] {
    Matrices m;
    float result = 7;
    EXPECT_EQ(cublasSdot(m.handle, 10, m.memory, 1, m.memory, 1, &result), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(result, 0);
    EXPECT_EQ(ebbtide_phantom_now(), 10000);  // it waited for the kernel
    EXPECT_EQ(cublasSetPointerMode(m.handle, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSdot(m.handle, 10, m.memory, 1, m.memory, 1, m.memory), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(ebbtide_phantom_now(), 10000);
    cudaDeviceSynchronize();
    EXPECT_EQ(ebbtide_phantom_now(), 20000);
  });
}

TEST(Blas, HandlesKeepWhatIsSet) {
  InFreshProcess([] {
    Matrices m;
    int version = 0;
    EXPECT_EQ(cublasGetVersion(m.handle, &version), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(version / 10000, EBBTIDE_CUDA_GENERATION);
    EXPECT_EQ(cublasLtGetVersion(), static_cast<std::size_t>(version));
    cublasMath_t mode = CUBLAS_DEFAULT_MATH;
    EXPECT_EQ(cublasSetMathMode(m.handle, CUBLAS_TF32_TENSOR_OP_MATH), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasGetMathMode(m.handle, &mode), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(mode, CUBLAS_TF32_TENSOR_OP_MATH);
    cudaStream_t stream = nullptr, found = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cublasSetStream(m.handle, stream), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasGetStream(m.handle, &found), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(found, stream);
    EXPECT_EQ(cublasSetStream(m.handle, reinterpret_cast<cudaStream_t>(0x1234)), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(cublasSetWorkspace(m.handle, reinterpret_cast<char*>(m.memory) + 16, 100), CUBLAS_STATUS_INVALID_VALUE);
  });
}

TEST(Blas, BatchedSolvesTellTheHostThatTheirArgumentsWereRight) {
  InFreshProcess([] {
    Matrices m;
    int info = 7;
    auto* pointers = reinterpret_cast<float**>(m.memory);
    EXPECT_EQ(cublasSgeqrfBatched(m.handle, 4, 4, pointers, 4, pointers, &info, 2), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(info, 0);
    EXPECT_EQ(cublasSgeqrfBatched(m.handle, 4, 4, pointers, 3, pointers, &info, 2), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(info, -4);
  });
}

// D = A B with A m x k, B k x n.
struct Product {
  Product(std::uint64_t m, std::uint64_t n, std::uint64_t k, std::size_t limit) {
    cublasLtCreate(&handle);
    EXPECT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, m, k, static_cast<std::int64_t>(m)), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutInit(&b, CUDA_R_32F, k, n, static_cast<std::int64_t>(k)), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, m, n, static_cast<std::int64_t>(m)), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, 8),
              CUBLAS_STATUS_SUCCESS);
  }
  cublasStatus_t Choose() {
    return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, &b, d, d, preference, 1, &choice, &count);
  }
  cublasStatus_t Multiply(void* memory, std::size_t workspace) {
    float one = 1;
    return cublasLtMatmul(handle, operation, &one, memory, a, memory, &b, &one, memory, d, memory, d, &choice.algo,
                          memory, workspace, nullptr);
  }
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, d = nullptr;
  cublasLtMatrixLayoutOpaque_t b;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t choice;
  int count = 0;
};

TEST(BlasLt, TheHeuristicKeepsToTheLimit) {
  InFreshProcess([] {
    // One tile of 128 x 128 on 4 multiprocessors: four splits, each with 64 KiB of partial sums.
    Product wide(128, 128, 8192, 1 << 20);
    ASSERT_EQ(wide.Choose(), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(wide.count, 1);
    EXPECT_EQ(wide.choice.workspaceSize, 4u * 65536);
    Product narrow(128, 128, 8192, 3 * 65536);
    ASSERT_EQ(narrow.Choose(), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(narrow.choice.workspaceSize, 3u * 65536);
    Product none(128, 128, 8192, 0);
    ASSERT_EQ(none.Choose(), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(none.choice.workspaceSize, 0u);
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 8 << 20), cudaSuccess);
    EXPECT_EQ(narrow.Multiply(memory, 3 * 65536), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(narrow.Multiply(memory, 3 * 65536 - 1), CUBLAS_STATUS_INVALID_VALUE);
  });
}

TEST(BlasLt, DescriptorsAreCheckedAgainstEachOther) {
  InFreshProcess([] {
    Product product(128, 64, 32, 0);
    EXPECT_EQ(product.Choose(), CUBLAS_STATUS_SUCCESS);
    cublasOperation_t transposed = CUBLAS_OP_T;
    std::size_t written = 0;
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(product.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 4),
              CUBLAS_STATUS_SUCCESS);
    transposed = CUBLAS_OP_N;
    EXPECT_EQ(cublasLtMatmulDescGetAttribute(product.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 4, &written),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(transposed, CUBLAS_OP_T);
    EXPECT_EQ(written, 4u);
    EXPECT_EQ(product.Choose(), CUBLAS_STATUS_INVALID_VALUE);  // A is 32 x 128 now
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(product.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 8),
              CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(cublasLtMatrixLayoutDestroy(reinterpret_cast<cublasLtMatrixLayout_t>(product.operation)),
              CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(cublasLtMatrixLayoutDestroy(product.a), CUBLAS_STATUS_SUCCESS);
  });
}

TEST(Blas, WhatIsNotModelledIsSaid) {
  Ended ended = RunToTheEnd({}, [] {
    Matrices m;
    float a = 1, b = 1, c = 1, s = 1;
    EXPECT_EQ(cublasSrotg(m.handle, &a, &b, &c, &s), CUBLAS_STATUS_NOT_SUPPORTED);
  });
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.errors, "phantom: cublasSrotg_v2 is not modelled\n");
}

}  // namespace
}  // namespace ebbtide::phantom
