// A tree over the ops, each node with the most below it and what was added to all of it.
#include "plan/search/forecast.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace ebbtide::plan {

Forecast::Forecast(const IdVector<OpId, Bytes>& values)
    : leaves_(std::bit_ceil(std::max<std::size_t>(values.size(), 1))),
      most_(2 * leaves_, std::numeric_limits<Bytes>::min() / 4),
      added_(2 * leaves_, 0) {
  std::ranges::copy(values, most_.begin() + static_cast<std::ptrdiff_t>(leaves_));
  for (std::size_t node = leaves_; node-- > 1;) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
}

void Forecast::Add(OpId from, Bytes bytes) {
  // From the leaf up: each right sibling on the way lies wholly in the range.
  std::size_t node = leaves_ + from.index();
  if (from.index() >= leaves_) return;
  most_[node] += bytes;
  added_[node] += bytes;
  for (; node > 1; node /= 2) {
    if (node % 2 == 0) {
      most_[node + 1] += bytes;
      added_[node + 1] += bytes;
    }
    most_[node / 2] = std::max(most_[node & ~std::size_t{1}], most_[node | 1]) + added_[node / 2];
  }
}

Bytes Forecast::Most(OpId from, OpId to) const {
  constexpr Bytes kNothing = std::numeric_limits<Bytes>::min() / 4;
  std::size_t left = leaves_ + from.index(), right = leaves_ + to.index() - 1;
  Bytes most_left = most_[left], most_right = most_[right];
  while (left / 2 != right / 2) {
    if (left % 2 == 0) most_left = std::max(most_left, most_[left + 1]);
    if (right % 2 == 1) most_right = std::max(most_right, most_[right - 1]);
    left /= 2;
    right /= 2;
    most_left += added_[left];
    most_right += added_[right];
  }
  Bytes most = left == right ? most_left : std::max(most_left, most_right);
  for (left /= 2; left >= 1; left /= 2) most += added_[left];
  return std::max(most, kNothing);
}

}  // namespace ebbtide::plan
