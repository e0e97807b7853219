// The clock of everything that is measured.
#pragma once

#include <chrono>

#include "base/units.h"

namespace ebbtide::run {

inline Nanos Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace ebbtide::run
