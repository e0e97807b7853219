// Many short lists of indices in one allocation: what each op needs, when each storage is used.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ebbtide::sim {

using Index = std::uint32_t;

class Lists {
 public:
  void Reserve(std::size_t lists) { begin_.reserve(lists + 1); }
  // A new list; the ones before it are closed.
  void Add(std::span<const Index> members) {
    members_.insert(members_.end(), members.begin(), members.end());
    begin_.push_back(static_cast<Index>(members_.size()));
  }
  std::size_t size() const { return begin_.size() - 1; }
  std::span<const Index> operator[](std::size_t list) const {
    return {members_.data() + begin_[list], members_.data() + begin_[list + 1]};
  }

 private:
  std::vector<Index> begin_{0};
  std::vector<Index> members_;
};

// For each of `members` values the lists that hold it, in order.
Lists Transpose(const Lists& lists, std::size_t members);

}  // namespace ebbtide::sim
