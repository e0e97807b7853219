// All interleavings of three jobs of four groups: never a deadlock, never two storages at one address.
#include "tests/share/explore.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/share/explore_cases.h"

namespace ebbtide::share::testing {
namespace {

ExploreOptions Options(Bytes capacity, int run_ahead = 0, bool start_at_ebb = false) {
  return {.pipeline = {.capacity = capacity, .alignment = 1, .ahead = 1, .start_at_ebb = start_at_ebb},
          .run_ahead = run_ahead,
          .actual = {}};
}

TEST(Explore, NeitherDeadlockNorCollision) {
  for (const Case& each : Cases()) {
    for (const Bytes room : {115, 150}) {  // for lanes, beside 3 x 10 of state
      for (const bool at_ebb : {false, true}) {
        if (each.name == std::string("weights") && (!at_ebb || room > 115)) continue;  // many more states
        const Bytes extra = each.name == std::string("two lanes") ? 100 : 0;
        const Explored result = Explore(each.shapes, Options(room + 30 + extra, 0, at_ebb));
        EXPECT_EQ(result.fault, "") << each.name << ", " << room;
        EXPECT_GT(result.states, 50u) << each.name;
        // Where no more than one peak fits, plateaus leave no room beside them.
        if (each.name != std::string("plateaus")) {
          EXPECT_GT(result.overlaps, 0u) << each.name << ", " << room;
        }
      }
    }
  }
}

// The two large ones, of 10^5 and 10^6 states, only with EBBTIDE_SOAK.
TEST(Explore, AheadOfTheDevice) {
  const bool soak = std::getenv("EBBTIDE_SOAK") != nullptr;
  for (const Case& each : Cases()) {
    const bool two_lanes = each.name == std::string("two lanes");
    if (!soak && (two_lanes || each.name == std::string("three sizes"))) continue;
    for (const bool at_ebb : {true, false}) {
      const Explored result = Explore(each.shapes, Options(two_lanes ? 245 : 145, 2, at_ebb));
      EXPECT_EQ(result.fault, "") << each.name;
      EXPECT_GT(result.states, 200u) << each.name;
      if (soak)
        fmt::print("{}: {} states, in {} groups overlap; no fault\n", each.name, result.states, result.overlaps);
    }
  }
}

TEST(Explore, AnyJobMayAbort) {
  ExploreOptions options = Options(145, 0, true);
  options.with_aborts = true;
  for (const std::size_t i : {0, 2}) EXPECT_EQ(Explore(Cases()[i].shapes, options).fault, "") << Cases()[i].name;
}

// The explorer sees a job that uses more than it declared.
TEST(Explore, ALieIsFound) {
  ExploreOptions options = Options(145);
  options.actual = Share({Wave("a", 100), Wave("b", 130), Wave("c", 100)});
  const Explored result = Explore(Share({Wave("a", 100), Wave("b", 100), Wave("c", 100)}), options);
  EXPECT_THAT(result.fault, ::testing::HasSubstr("collide"));
}

}  // namespace
}  // namespace ebbtide::share::testing
