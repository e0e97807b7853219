// A product as its descriptors tell it, and what an algorithm needs for it.
#pragma once

#include "phantom/cublaslt/descriptor.h"

namespace ebbtide::phantom {

struct LtProduct {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  int sum_bytes = 4;  // of an element of partial sums
  ProductType type = ProductType::kFloat32;
};

// CUBLAS_STATUS_INVALID_VALUE: the descriptors are none, or the matrices do not fit each other.
cublasStatus_t LtRead(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, LtProduct& out);

// Whether the program got the algorithm from us.
bool LtIsAlgorithm(const cublasLtMatmulAlgo_t& algorithm);
// What the algorithm takes for the product.
Bytes LtWorkspace(const LtProduct& product, const cublasLtMatmulAlgo_t& algorithm);

}  // namespace ebbtide::phantom
