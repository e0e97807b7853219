#include "alloc/free_set.h"

#include <algorithm>
#include <cassert>

namespace ebbtide::alloc {
namespace {

struct Key {
  Bytes size;
  Address address;
};
bool Before(const FreeSet::Entry& entry, const Key& key) {
  return entry.size != key.size ? entry.size < key.size : entry.address < key.address;
}

std::size_t FirstNotBefore(const std::vector<FreeSet::Entry>& entries, const Key& key) {
  const FreeSet::Entry* base = entries.data();
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

std::size_t FreeSet::LeafOf(Bytes size, Address address) const { return FirstNotBefore(last_, {size, address}); }

FreeSet::Leaf FreeSet::NewLeaf() {
  Leaf leaf;
  if (!spare_.empty()) {
    leaf = std::move(spare_.back());
    spare_.pop_back();
  }
  leaf.reserve(kLeaf);
  return leaf;
}

FreeSet::Position FreeSet::LowerBound(Bytes size, Address address) const {
  const std::size_t leaf = LeafOf(size, address);
  if (leaf == leaves_.size()) return end();
  return {leaf, FirstNotBefore(leaves_[leaf], {size, address})};
}

void FreeSet::Insert(const Entry& entry) {
  ++size_;
  if (leaves_.empty()) {
    leaves_.push_back(NewLeaf());
    leaves_.back().push_back(entry);
    last_.push_back(entry);
    return;
  }
  std::size_t leaf = std::min(LeafOf(entry.size, entry.address), leaves_.size() - 1);
  if (leaves_[leaf].size() == kLeaf) {
    Leaf upper = NewLeaf();
    Leaf& lower = leaves_[leaf];
    upper.assign(lower.begin() + kLeaf / 2, lower.end());
    lower.resize(kLeaf / 2);
    last_.insert(last_.begin() + Offset(leaf), lower.back());
    leaves_.insert(leaves_.begin() + Offset(leaf) + 1, std::move(upper));
    if (Before(last_[leaf], {entry.size, entry.address})) ++leaf;
  }
  Leaf& entries = leaves_[leaf];
  entries.insert(entries.begin() + Offset(FirstNotBefore(entries, {entry.size, entry.address})), entry);
  last_[leaf] = entries.back();
}

void FreeSet::Erase(Bytes size, Address address) {
  const Position position = LowerBound(size, address);
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
