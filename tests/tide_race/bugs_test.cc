// Bugs seeded into the tide allocator's own code are caught: each runs in a process of its own, for a bug may stop it.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/tide/program.h"

namespace ebbtide::tide {

int tide_bug = 0;

namespace {

constexpr const char* kBugs[] = {
#include "bugs.inc"
};
constexpr rlim_t kSeconds = 4;  // of a processor; without a bug it is less than one

// What is known of a run: short of memory, with quotas, on a device that refuses, with memory to spare.
bool FindsAnything() {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const TideProgramOptions kinds[] = {
        {.seed = seed, .streams = 6, .operations = 6000, .capacity = 16 * kGiB, .check_every = 64},
        {.seed = seed,
         .streams = 2,
         .operations = 9000,
         .capacity = 16 * kGiB,
         .live = 3000,
         .progress = 4,
         .check_every = 512},
        {.seed = seed, .operations = 6000, .capacity = 160 * kMiB, .check_every = 64},
        {.seed = seed, .operations = 6000, .capacity = 320 * kMiB, .quotas = true, .check_every = 64},
        {.seed = seed, .operations = 6000, .capacity = 256 * kMiB, .refusals = 0.3, .check_every = 64}};
    for (const TideProgramOptions& options : kinds) {
      if (!RunTideProgram(options).empty()) return true;
    }
  }
  return false;
}

// Whether the checkers, an assert, a crash or an endless loop gave the bug away.
bool IsCaught(int bug) {
  const pid_t child = fork();
  if (child == 0) {
    if (!std::freopen("/dev/null", "w", stderr)) _exit(0);
    const rlimit limit{kSeconds, kSeconds};
    if (bug != 0) setrlimit(RLIMIT_CPU, &limit);
    tide_bug = bug;
    _exit(FindsAnything() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

TEST(TideBugs, NothingIsFoundWithoutOne) { EXPECT_FALSE(IsCaught(0)); }

TEST(TideBugs, AtLeast49Of50AreCaught) {
  int caught = 0;
  for (std::size_t i = 0; i < std::size(kBugs); ++i) {
    const bool is_caught = IsCaught(static_cast<int>(i + 1));
    caught += is_caught;
    if (!is_caught) std::printf("not caught: %s\n", kBugs[i]);
  }
  EXPECT_EQ(std::size(kBugs), 50u);
  EXPECT_GE(caught, 49);
}

}  // namespace
}  // namespace ebbtide::tide
