// Limits of the context that a program can set: stack, heap and printf buffer of kernels. They are remembered, and
// nothing follows from them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "base/units.h"
#include "phantom/core/code.h"

namespace ebbtide::phantom {

class Limits {
 public:
  // Limits go by number, as CUlimit and cudaLimit have them. kNotSupported where there is none of that number.
  Code Get(int limit, std::size_t& out) const;
  Code Set(int limit, std::size_t value);

 private:
  std::array<std::atomic<std::size_t>, 7> values_{1024, kMiB, 8 * kMiB, 2, 2048, 64, 0};
};

Limits& TheLimits();

}  // namespace ebbtide::phantom
