// Random programs on the tide allocator under the race checker: nothing is found, and every class occurs. `make soak`
// runs 10^7 operations (bench/tide/race_bench.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tide/program.h"

namespace ebbtide::tide {
namespace {

void ExpectNothing(TideProgramOptions options) {
  std::array<std::int64_t, TideAllocator::kClasses> met{};
  for (options.seed = 1; options.seed <= 4; ++options.seed) {
    TideProgramCounts counts;
    EXPECT_THAT(RunTideProgram(options, counts), testing::IsEmpty()) << "seed " << options.seed;
    EXPECT_GT(counts.waits, 0);
    EXPECT_GT(counts.accesses, options.operations / 2);
    for (std::size_t i = 0; i < met.size(); ++i) met[i] += counts.met[i];
  }
  for (const std::int64_t requests : met) EXPECT_GT(requests, 50);
}

TEST(TideRace, WithMemoryToSpare) { ExpectNothing({.operations = 20000, .capacity = 16 * kGiB}); }
TEST(TideRace, ShortOfMemory) { ExpectNothing({.operations = 20000, .capacity = 160 * kMiB}); }
TEST(TideRace, WithQuotas) { ExpectNothing({.operations = 20000, .capacity = 320 * kMiB, .quotas = true}); }
TEST(TideRace, OnADeviceThatRefuses) { ExpectNothing({.operations = 20000, .capacity = 256 * kMiB, .refusals = 0.3}); }
TEST(TideRace, WithMuchInFlight) {
  ExpectNothing({.streams = 3, .operations = 20000, .capacity = 16 * kGiB, .live = 3000, .progress = 4});
}
TEST(TideRace, OnThreeStreams) { ExpectNothing({.streams = 3, .operations = 20000, .capacity = 256 * kMiB}); }

}  // namespace
}  // namespace ebbtide::tide
