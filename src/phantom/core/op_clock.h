// What kernels take on the virtual clock, by the models of src/device. With EBBTIDE_PHANTOM_TIMES=model:
//
//   products and convolutions  by the shapes that the library was called with
//   kernels of an operator     as one, when it ends, by the tensors that an observer of the dispatcher tells; Triton's
//                              kernels by those they are given
//   all others                 by their number of threads, a guess that is counted
//
// Without it a kernel takes what EBBTIDE_PHANTOM_KERNEL_US says.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "device/workspace_rules.h"
#include "phantom/core/code.h"

namespace ebbtide::phantom {

class Stream;
struct LaunchShape;

// The types that products are computed in.
enum class ProductType : std::uint8_t { kFloat32, kTf32, kFloat16, kBFloat16, kFloat64, kInt8 };

// < 0 where times are not modelled: nobody knows, and the default stands.
Nanos TimeOfProduct(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, ProductType type);
Nanos TimeOfConvolution(const ConvolutionProblem& problem);

// What a kernel takes of which nothing is known but how many threads it has (`shape` null: not even that). 0 for one
// that belongs to an operator, which takes the whole time when it ends.
Nanos TimeOfLaunch(Stream& stream, const LaunchShape* shape);

std::int64_t GuessedLaunches();

}  // namespace ebbtide::phantom
