#include "tests/share/random_mix.h"

#include <gtest/gtest.h>

namespace ebbtide::share::testing {
namespace {

TEST(RandomMix, ThousandMixes) {
  MixResult sum;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const MixResult result = RunRandomMix(seed);
    ASSERT_EQ(result.fault, "") << "seed " << seed;
    sum.iterations += result.iterations, sum.joins += result.joins, sum.refused += result.refused;
    sum.aborts += result.aborts, sum.leaves += result.leaves, sum.overlaps += result.overlaps;
  }
  // The mixes are what they are meant to be.
  EXPECT_GT(sum.iterations, 5000);
  EXPECT_GT(sum.joins, 3000);
  EXPECT_GT(sum.refused, 500);
  EXPECT_GT(sum.leaves, 500);
  EXPECT_GT(sum.overlaps, 5000);
}

}  // namespace
}  // namespace ebbtide::share::testing
