// Inside libcufft: plans. The header of CUDA 13 serves both generations; those of 12 have a few more result codes.
#pragma once

#pragma GCC visibility push(default)
#include <cufft.h>
#include <cufftXt.h>
#pragma GCC visibility pop

#include <array>
#include <memory>
#include <span>

#include "phantom/core/api.h"

namespace ebbtide::phantom {

struct FftPlan {
  void* stream = nullptr;
  bool allocates = true;  // takes its work area from the device by itself
  bool is_made = false;
  Bytes work_bytes = 0;
  void* own_area = nullptr;
  void* given_area = nullptr;
};

// Null where there is no such plan.
std::shared_ptr<FftPlan> FindFft(cufftHandle handle);
cufftResult CreateFft(cufftHandle* out);

// What is transformed. Lengths are in elements, the first dimension varies slowest.
struct FftShape {
  std::span<const long long> lengths;
  long long batch = 1;
  bool is_real = false;  // one side is real: the last dimension is half
  Bytes complex_bytes = 8;
};

// Sets `is_real` and `complex_bytes`. CUFFT_INVALID_TYPE where it is none of the types.
cufftResult ReadType(cufftType type, FftShape& shape);

// The bytes that a plan works in. CUFFT_INVALID_SIZE where a length, their number or the batch is wrong. Assumed: one
// more copy of the complex side, the least that is documented; a length with a prime factor over 127 is done as a
// convolution (documented) and takes the power of two that holds twice the length.
cufftResult WorkArea(const FftShape& shape, Bytes& bytes);

// Makes the plan and, if it is to, takes its work area.
cufftResult MakeFft(FftPlan& plan, const FftShape& shape, std::size_t* work_bytes);

cufftResult FromCode(Code code);

}  // namespace ebbtide::phantom
