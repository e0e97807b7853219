// Many random mixes on the real pipeline: none collides, stands still or starves a job.
#include "tests/share/random_mix.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace ebbtide::share::testing {
namespace {

// A soak runs as many as EBBTIDE_SOAK says.
std::uint64_t Mixes() {
  const char* soak = std::getenv("EBBTIDE_SOAK");
  return soak != nullptr ? std::strtoull(soak, nullptr, 10) : 1000;
}

TEST(RandomMix, NeitherDeadlockNorCollisionNorStarvation) {
  MixResult sum;
  for (std::uint64_t seed = 0; seed < Mixes(); ++seed) {
    const MixResult result = RunRandomMix(seed);
    ASSERT_EQ(result.fault, "") << "seed " << seed;
    sum.iterations += result.iterations, sum.joins += result.joins, sum.refused += result.refused;
    sum.aborts += result.aborts, sum.leaves += result.leaves, sum.overlaps += result.overlaps;
  }
  if (std::getenv("EBBTIDE_SOAK")) {
    fmt::print("{} mixes: {} joins, {} refused, {} aborts, {} leaves, {} iterations, {} moments of overlap; no fault\n",
               Mixes(), sum.joins, sum.refused, sum.aborts, sum.leaves, sum.iterations, sum.overlaps);
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
