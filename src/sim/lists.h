// Many short lists of ids in one allocation: what each op needs, when each storage is used.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/id_vector.h"

namespace ebbtide::sim {

// One list of `Item` ids for each of the first ids of `Owner`.
template <class Owner, class Item>
class Lists {
 public:
  Lists() = default;
  // List i is [begin[i], begin[i + 1]) of `members`; `begin` has one more than there are lists.
  Lists(std::vector<std::uint32_t> begin, std::vector<Item> members)
      : begin_(std::move(begin)), members_(std::move(members)) {}
  void Reserve(std::size_t lists) { begin_.reserve(lists + 1); }
  // A new list, of the next owner; the ones before it are closed.
  void Add(std::span<const Item> members) {
    members_.insert(members_.end(), members.begin(), members.end());
    begin_.push_back(static_cast<std::uint32_t>(members_.size()));
  }
  std::size_t size() const { return begin_.size() - 1; }
  // The owners of the lists.
  Ids<Owner> ids() const { return Ids<Owner>(size()); }
  std::span<const Item> operator[](Owner owner) const {
    return {members_.data() + begin_[owner.index()], members_.data() + begin_[owner.index() + 1]};
  }

 private:
  std::vector<std::uint32_t> begin_{0};
  std::vector<Item> members_;
};

// For each of the first `items` items the owners of the lists that hold it, in order.
template <class Owner, class Item>
Lists<Item, Owner> Transpose(const Lists<Owner, Item>& lists, std::size_t items) {
  IdVector<Item, std::vector<Owner>> holders(items);
  for (const Owner owner : lists.ids()) {
    for (const Item item : lists[owner]) holders[item].push_back(owner);
  }
  Lists<Item, Owner> out;
  out.Reserve(items);
  for (const auto& list : holders) out.Add(list);
  return out;
}

}  // namespace ebbtide::sim
