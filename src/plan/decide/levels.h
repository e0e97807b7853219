// Bytes by stage, of which runs change at a time; how far they are above a budget, kept up as they change.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "base/units.h"

namespace ebbtide::plan {

class Levels {
 public:
  Levels() = default;
  explicit Levels(std::size_t count)
      : level_(count, 0), weight_(count, 1), added_((count + kBlock - 1) / kBlock, 0), most_(added_.size(), 0) {}

  // All weights are 1 again.
  void SetBudget(Bytes budget) {
    budget_ = budget;
    std::ranges::fill(weight_, 1.0F);
    Recount();
  }
  Bytes budget() const { return budget_; }
  std::size_t size() const { return level_.size(); }
  Bytes operator[](std::size_t i) const { return level_[i] + added_[i / kBlock]; }
  // The sum over all of what is above the budget.
  Bytes excess() const { return excess_; }
  // The same, each with its weight; to within rounding.
  double weighted() const { return weighted_; }
  // The largest.
  Bytes Most() const {
    Bytes most = 0;
    for (std::size_t b = 0; b < most_.size(); ++b) most = std::max(most, most_[b] + added_[b]);
    return most;
  }
  // Whether one of [from, to), half-open, is above the budget.
  bool AnyAbove(std::size_t from, std::size_t to) const {
    while (from < to) {
      const std::size_t block = from / kBlock, end = std::min(to, (block + 1) * kBlock);
      if (most_[block] + added_[block] > budget_) {
        for (std::size_t i = from; i < end; ++i) {
          if (level_[i] + added_[block] > budget_) return true;
        }
      }
      from = end;
    }
    return false;
  }

  // Adds to those of [from, to), half-open; nothing where that is empty.
  void Add(std::size_t from, std::size_t to, Bytes bytes) {
    while (from < to) {
      const std::size_t block = from / kBlock, end = std::min(to, (block + 1) * kBlock);
      const bool whole = from % kBlock == 0 && (end % kBlock == 0 || end == level_.size());
      if (whole && most_[block] + added_[block] + std::max<Bytes>(bytes, 0) <= budget_) {
        added_[block] += bytes;
      } else {
        AddSome(block, from, end, bytes);
      }
      from = end;
    }
  }

  // What is above the budget now weighs more from now on, what is not a little less.
  void Learn() {
    for (std::size_t i = 0; i < level_.size(); ++i)
      weight_[i] = (*this)[i] > budget_ ? weight_[i] * 1.2F : std::max(1.0F, weight_[i] * 0.98F);
    Recount();
  }

 private:
  static constexpr std::size_t kBlock = 64;

  void Recount() {
    excess_ = 0;
    weighted_ = 0;
    for (std::size_t i = 0; i < level_.size(); ++i) {
      const Bytes above = std::max<Bytes>((*this)[i] - budget_, 0);
      excess_ += above;
      weighted_ += static_cast<double>(above) * static_cast<double>(weight_[i]);
    }
  }

  void AddSome(std::size_t block, std::size_t from, std::size_t to, Bytes bytes) {
    const Bytes room = budget_ - added_[block];
    const bool is_low = most_[block] + std::max<Bytes>(bytes, 0) <= room;  // nothing is above, before and after
    Bytes before = std::numeric_limits<Bytes>::min();                      // the largest of those that change
    for (std::size_t i = from; i < to; ++i) {
      const Bytes old = level_[i];
      before = std::max(before, old);
      level_[i] = old + bytes;
      if (is_low) continue;
      const Bytes change = std::max<Bytes>(old + bytes - room, 0) - std::max<Bytes>(old - room, 0);
      if (change == 0) continue;
      excess_ += change;
      weighted_ += static_cast<double>(change) * static_cast<double>(weight_[i]);
    }
    if (before + bytes >= most_[block]) {
      most_[block] = before + bytes;
      return;
    }
    if (before < most_[block]) return;  // the largest is another
    const auto first = level_.begin() + static_cast<std::ptrdiff_t>(block * kBlock);
    const auto last = level_.begin() + static_cast<std::ptrdiff_t>(std::min(level_.size(), (block + 1) * kBlock));
    most_[block] = *std::max_element(first, last);
  }

  std::vector<Bytes> level_;   // without what was added to the whole block
  std::vector<float> weight_;  // of what is above the budget
  std::vector<Bytes> added_;   // by block: to each of it
  std::vector<Bytes> most_;    // by block: the largest of level_
  Bytes budget_ = 0, excess_ = 0;
  double weighted_ = 0;
};

}  // namespace ebbtide::plan
