// Search, insertion and removal in sorted leaves of at most 64 entries.
#include "alloc/free_set.h"

#include <algorithm>
#include <cassert>

namespace ebbtide::alloc {
namespace {

using Entry = FreeSet::Entry;

bool Before(const Entry& a, const Entry& b) {
  if (a.size != b.size) return a.size < b.size;
  if (a.age != b.age) return a.age < b.age;
  return a.address < b.address;
}

std::size_t FirstNotBefore(const std::vector<Entry>& entries, const Entry& key) {
  const Entry* base = entries.data();
  std::size_t count = entries.size();
  while (count > 0) {
    const std::size_t half = count / 2;
    if (Before(base[half], key)) {
      base += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return static_cast<std::size_t>(base - entries.data());
}

std::ptrdiff_t Offset(std::size_t index) { return static_cast<std::ptrdiff_t>(index); }

}  // namespace

FreeSet::Leaf FreeSet::NewLeaf() {
  Leaf leaf;
  if (!spare_.empty()) {
    leaf = std::move(spare_.back());
    spare_.pop_back();
  }
  leaf.reserve(kLeaf);
  return leaf;
}

FreeSet::Position FreeSet::LowerBound(Bytes size, std::int32_t age, Address address) const {
  const Entry key{.size = size, .address = address, .age = age};
  const std::size_t leaf = FirstNotBefore(last_, key);
  if (leaf == leaves_.size()) return end();
  return {leaf, FirstNotBefore(leaves_[leaf], key)};
}

void FreeSet::Insert(const Entry& entry) {
  ++size_;
  if (leaves_.empty()) {
    leaves_.push_back(NewLeaf());
    leaves_.back().push_back(entry);
    last_.push_back(entry);
    return;
  }
  std::size_t leaf = std::min(FirstNotBefore(last_, entry), leaves_.size() - 1);
  if (leaves_[leaf].size() == kLeaf) {
    Leaf upper = NewLeaf();
    Leaf& lower = leaves_[leaf];
    upper.assign(lower.begin() + kLeaf / 2, lower.end());
    lower.resize(kLeaf / 2);
    last_.insert(last_.begin() + Offset(leaf), lower.back());
    leaves_.insert(leaves_.begin() + Offset(leaf) + 1, std::move(upper));
    if (Before(last_[leaf], entry)) ++leaf;
  }
  Leaf& entries = leaves_[leaf];
  entries.insert(entries.begin() + Offset(FirstNotBefore(entries, entry)), entry);
  last_[leaf] = entries.back();
}

void FreeSet::Erase(Bytes size, std::int32_t age, Address address) {
  const Position position = LowerBound(size, age, address);
  assert(position != end() && At(position).size == size && At(position).address == address);
  Erase(position);
}

void FreeSet::Erase(Position position) {
  --size_;
  Leaf& entries = leaves_[position.leaf];
  entries.erase(entries.begin() + Offset(position.slot));
  if (entries.empty()) {
    spare_.push_back(std::move(entries));
    leaves_.erase(leaves_.begin() + Offset(position.leaf));
    last_.erase(last_.begin() + Offset(position.leaf));
  } else {
    last_[position.leaf] = entries.back();
  }
}

}  // namespace ebbtide::alloc
