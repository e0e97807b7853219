// The moment by which an answer is wanted. One object for a whole job: its phases get parts of it, and all that may
// take long asks it, so that no phase takes time that the user did not give.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

namespace ebbtide {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // Never passes.
  Deadline() = default;
  // So many seconds from now. Those that no clock can hold count as none.
  static Deadline After(double seconds) {
    constexpr double kLongest = 1e8;  // three years
    Deadline out;
    if (seconds < kLongest) {
      const std::chrono::duration<double> span(std::max(seconds, 0.0));
      out.end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(span);
    }
    return out;
  }
  // As flags and fields give it: 0 means none.
  static Deadline OfLimit(double seconds) { return seconds > 0 ? After(seconds) : Deadline(); }

  bool exists() const { return end_.has_value(); }
  bool Passed() const { return end_ && Clock::now() >= *end_; }
  // 0 once it has passed; infinity where there is none.
  double SecondsLeft() const {
    if (!end_) return std::numeric_limits<double>::infinity();
    return std::max(0.0, std::chrono::duration<double>(*end_ - Clock::now()).count());
  }
  // The end of a phase that begins now and may use `share`, from 0 to 1, of what is left.
  Deadline Part(double share) const { return end_ ? After(SecondsLeft() * share) : Deadline(); }

  // This one, or `seconds` from now if that is later: for what an answer cannot do without.
  Deadline ButNotBefore(double seconds) const { return SecondsLeft() < seconds ? After(seconds) : *this; }

 private:
  std::optional<Clock::time_point> end_;
};

}  // namespace ebbtide
