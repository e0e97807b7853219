// A set of ids of one noun, one bit for each: for sets with a good part of all ids in them.
#pragma once

#include <cstddef>
#include <vector>

namespace ebbtide {

template <class IdType>
class IdSet {
 public:
  IdSet() = default;
  // Room for `count` ids; it grows where a larger one is inserted.
  explicit IdSet(std::size_t count) : has_(count) {}

  bool contains(IdType id) const { return id.index() < has_.size() && has_[id.index()]; }
  // Whether it was not in the set before. The id is valid.
  bool insert(IdType id) {
    if (id.index() >= has_.size()) has_.resize(id.index() + 1);
    const bool is_new = !has_[id.index()];
    has_[id.index()] = true;
    return is_new;
  }
  template <class Iterator>
  void insert(Iterator first, Iterator last) {
    for (; first != last; ++first) insert(*first);
  }

 private:
  std::vector<bool> has_;
};

}  // namespace ebbtide
