// Inside libcublas: the public header with its functions visible, and handles. The header of CUDA 13 serves both
// generations: of what is modelled, CUDA 12.4 differs in nothing but the number of its version.
#pragma once

#pragma GCC visibility push(default)
#include <cublas_api.h>
#pragma GCC visibility pop

#include <memory>

#include "phantom/core/api.h"

namespace ebbtide::phantom {

// What a handle stands for. Used by one thread at a time, as cuBLAS asks for.
struct Blas {
  void* stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  int multiprocessors = 0;  // cublasSetSmCountTarget; 0: all
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

Handles<Blas>& BlasHandles();

cublasStatus_t FromCode(Code code);

}  // namespace ebbtide::phantom

// Counts the call and declares `blas`, what the handle stands for, or ends the call.
#define BLAS_CALL(name, handle, ...)                                                               \
  EBB_PHANTOM_CALL(::ebbtide::phantom::FromCode, name, handle __VA_OPT__(, ) __VA_ARGS__);         \
  std::shared_ptr<::ebbtide::phantom::Blas> blas = ::ebbtide::phantom::BlasHandles().Find(handle); \
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED
