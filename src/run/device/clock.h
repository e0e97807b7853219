// The clock of everything that is measured.
#pragma once

#include <time.h>

#include <chrono>

#include "base/units.h"

namespace ebbtide::run {

inline Nanos Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Time that this thread has run: what else the machine does is not in it.
inline Nanos ThreadNow() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<Nanos>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace ebbtide::run
