// A context whose stop turns true after a number of questions, and which counts what the job does after that.
#pragma once

#include <atomic>
#include <limits>

#include "jobs/context.h"

namespace ebbtide::jobs {

struct StopAfter {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  explicit StopAfter(std::int64_t questions) : least(questions) {
    context.stop = [this] { return ++asked > least; };
    context.progress = [this](const Progress&) {
      ++told;
      if (asked > least) ++told_after;
    };
  }
  StopAfter(const StopAfter&) = delete;
  StopAfter& operator=(const StopAfter&) = delete;

  const std::int64_t least;
  std::atomic<std::int64_t> asked = 0;
  std::atomic<std::int64_t> told = 0, told_after = 0;  // moments of progress in all, and after the stop
  JobContext context;
};

}  // namespace ebbtide::jobs
