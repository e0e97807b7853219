// Inside libcusolver: the dense part. The header of CUDA 13 serves both generations; what 12.4 lacks or has besides is
// left to api.txt.
#pragma once

#pragma GCC visibility push(default)
#include <cusolverDn.h>
#pragma GCC visibility pop

#include <memory>

#include "phantom/core/api.h"

namespace ebbtide::phantom {

struct Solver {
  void* stream = nullptr;
  cusolverDeterministicMode_t deterministic = CUSOLVER_DETERMINISTIC_RESULTS;
};

// Options of iterative methods and of the calls with 64-bit sizes; none changes anything here.
struct SolverOptions {
  int unused = 0;
};

Handles<Solver>& Solvers();

cusolverStatus_t FromCode(Code code);

}  // namespace ebbtide::phantom

// Counts the call and declares `solver`, what the handle stands for, or ends the call.
#define SOLVER_CALL(name, handle, ...)                                                             \
  EBB_PHANTOM_CALL(::ebbtide::phantom::FromCode, name, handle __VA_OPT__(, ) __VA_ARGS__);         \
  std::shared_ptr<::ebbtide::phantom::Solver> solver = ::ebbtide::phantom::Solvers().Find(handle); \
  if (!solver) return CUSOLVER_STATUS_NOT_INITIALIZED
