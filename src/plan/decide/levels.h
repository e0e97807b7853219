// Bytes by stage, of which runs change at a time; how far they are above a budget, kept up as they change.
#pragma once

#include <algorithm>
#include <vector>

#include "base/units.h"

namespace ebbtide::plan {

class Levels {
 public:
  Levels() = default;
  explicit Levels(std::size_t count)
      : level_(count, 0), added_((count + kBlock - 1) / kBlock, 0), most_(added_.size(), 0) {}

  void SetBudget(Bytes budget) {
    budget_ = budget;
    excess_ = 0;
    for (std::size_t i = 0; i < level_.size(); ++i) excess_ += Above((*this)[i]);
  }
  Bytes budget() const { return budget_; }
  std::size_t size() const { return level_.size(); }
  Bytes operator[](std::size_t i) const { return level_[i] + added_[i / kBlock]; }
  // The sum over all of what is above the budget.
  Bytes excess() const { return excess_; }
  // The largest.
  Bytes Most() const {
    Bytes most = 0;
    for (std::size_t b = 0; b < most_.size(); ++b) most = std::max(most, most_[b] + added_[b]);
    return most;
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

 private:
  static constexpr std::size_t kBlock = 64;

  Bytes Above(Bytes level) const { return std::max<Bytes>(level - budget_, 0); }
  void AddSome(std::size_t block, std::size_t from, std::size_t to, Bytes bytes) {
    const Bytes room = budget_ - added_[block];
    Bytes change = 0;
    for (std::size_t i = from; i < to; ++i) {
      const Bytes old = level_[i];
      level_[i] = old + bytes;
      change += std::max<Bytes>(old + bytes - room, 0) - std::max<Bytes>(old - room, 0);
    }
    excess_ += change;
    const auto first = level_.begin() + static_cast<std::ptrdiff_t>(block * kBlock);
    const auto last = level_.begin() + static_cast<std::ptrdiff_t>(std::min(level_.size(), (block + 1) * kBlock));
    most_[block] = *std::max_element(first, last);
  }

  std::vector<Bytes> level_;   // without what was added to the whole block
  std::vector<Bytes> added_;   // by block: to each of it
  std::vector<Bytes> most_;    // by block: the largest of level_
  Bytes budget_ = 0, excess_ = 0;
};

}  // namespace ebbtide::plan
