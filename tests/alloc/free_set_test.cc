// The set of free blocks against std::set, through many random insertions, erasures and searches.
#include "alloc/free_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <tuple>

namespace ebbtide::alloc {
namespace {

using Key = std::tuple<Bytes, std::int32_t, Address>;

Key KeyOf(const FreeSet::Entry& entry) { return {entry.size, entry.age, entry.address}; }

TEST(FreeSet, IsAnOrderedSet) {
  std::minstd_rand random(1);
  FreeSet free;
  std::set<Key> expected;
  for (int i = 0; i < 20'000; ++i) {
    const Bytes size = 512 * static_cast<Bytes>(random() % 40);
    const Key key{size, static_cast<std::int32_t>(random() % 3), random() % 200};
    const auto& [bytes, age, address] = key;
    // Grows for a while, then shrinks.
    if (random() % 10 < (i < 10'000 ? 7u : 3u)) {
      if (expected.insert(key).second) free.Insert({bytes, address, age, i});
    } else if (const auto found = expected.lower_bound(key); found != expected.end()) {
      free.Erase(std::get<0>(*found), std::get<1>(*found), std::get<2>(*found));
      expected.erase(found);
    }
    ASSERT_EQ(free.size(), expected.size());
    const FreeSet::Position position = free.LowerBound(size);
    const auto wanted = expected.lower_bound(Key{size, 0, 0});
    ASSERT_EQ(position == free.end(), wanted == expected.end());
    if (wanted != expected.end()) {
      ASSERT_EQ(KeyOf(free.At(position)), *wanted);
    }
  }
  FreeSet::Position position = free.begin();
  for (const Key& key : expected) {
    ASSERT_EQ(KeyOf(free.At(position)), key);
    position = free.Next(position);
  }
  EXPECT_EQ(position, free.end());
  for (auto key = expected.rbegin(); key != expected.rend(); ++key) {
    position = free.Previous(position);
    ASSERT_EQ(KeyOf(free.At(position)), *key);
  }
}

}  // namespace
}  // namespace ebbtide::alloc
