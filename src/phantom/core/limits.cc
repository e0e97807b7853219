// Limits by number.
#include "phantom/core/limits.h"

namespace ebbtide::phantom {

Code Limits::Get(int limit, std::size_t& out) const {
  if (limit < 0 || limit >= static_cast<int>(values_.size())) return Code::kNotSupported;
  out = values_[static_cast<std::size_t>(limit)];
  return Code::kSuccess;
}

Code Limits::Set(int limit, std::size_t value) {
  if (limit < 0 || limit >= static_cast<int>(values_.size())) return Code::kNotSupported;
  values_[static_cast<std::size_t>(limit)] = value;
  return Code::kSuccess;
}

Limits& TheLimits() {
  static Limits* limits = new Limits;
  return *limits;
}

}  // namespace ebbtide::phantom
