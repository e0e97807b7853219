// Ids in a row, their order, and vectors that only ids of their own noun index.
#include "base/id_vector.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ebbtide {
namespace {

TEST(Ids, AreAHalfOpenRange) {
  std::vector<OpId> first, middle;
  for (const OpId op : Ids<OpId>(3)) first.push_back(op);
  EXPECT_EQ(first, (std::vector{OpId(0), OpId(1), OpId(2)}));
  for (const OpId op : Ids(OpId(1), OpId(3))) middle.push_back(op);
  EXPECT_EQ(middle, (std::vector{OpId(1), OpId(2)}));
  for (const OpId op : Ids<OpId>(0)) FAIL() << op.value;
  for (const OpId op : Ids(OpId(2), OpId(1))) FAIL() << op.value;
}

TEST(Ids, OneThatRefersToNothingIsOrderedAsAsked) {
  EXPECT_LT(OpId(), OpId(0));
  EXPECT_GT(NoneLast(OpId()), NoneLast(OpId(0x7fffffff)));
  EXPECT_LT(NoneLast(OpId(1)), NoneLast(OpId(2)));
}

TEST(IdVector, IsIndexedByItsIdsAlone) {
  IdVector<OpId, int> times(2, 7);
  times[OpId(1)] = 9;
  EXPECT_EQ(times.end_id(), OpId(2));
  times.push_back(11);
  EXPECT_EQ(times.values(), (std::vector{7, 9, 11}));
  EXPECT_EQ(std::ranges::count_if(times.ids(), [&](OpId op) { return times[op] > 8; }), 2);
  static_assert(!std::is_invocable_v<decltype([](auto& v, auto i) -> decltype(v[i]) { return v[i]; }),
                                     IdVector<OpId, int>&, StorageId>);
}

TEST(IdVector, HoldsBits) {
  IdVector<OpId, bool> seen(2, false);
  seen[OpId(1)] = true;
  EXPECT_FALSE(seen[OpId(0)]);
  EXPECT_TRUE(seen[OpId(1)]);
}

}  // namespace
}  // namespace ebbtide
