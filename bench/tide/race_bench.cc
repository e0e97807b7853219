// Random programs on the tide allocator, 16 streams, all accesses declared to the race checker: nothing may be found.
//   bench_tide_race [OPERATIONS]   in all, 1,000,000 if not given; `make soak` runs 10^7
#include <fmt/format.h>

#include <string>

#include "tests/support/tide/program.h"

int main(int argc, char** argv) {
  using namespace ebbtide;
  const std::int64_t operations = argc > 1 ? std::stoll(argv[1]) : 1000000;
  // Plain; short of memory; with quotas; with a device that refuses some of the time.
  const tide::TideProgramOptions kinds[] = {{.seed = 1, .capacity = 16 * kGiB, .check_every = 4096},
                                            {.seed = 2, .capacity = 192 * kMiB, .check_every = 4096},
                                            {.seed = 3, .capacity = 512 * kMiB, .quotas = true, .check_every = 4096},
                                            {.seed = 4, .capacity = 256 * kMiB, .refusals = 0.3, .check_every = 4096}};
  int found = 0;
  for (tide::TideProgramOptions options : kinds) {
    options.operations = operations / 4;
    tide::TideProgramCounts counts;
    const std::vector<std::string> findings = RunTideProgram(options, counts);
    fmt::print(
        "{} operations: {} allocations, {} frees, {} accesses checked, {} waits, {} host waits, {} refused; same "
        "stream {}, ordered {}, completed {}, scheduled {}, grown {}: {} findings\n",
        options.operations, counts.allocations, counts.frees, counts.accesses, counts.waits, counts.host_waits,
        counts.out_of_memory, counts.met[0], counts.met[1], counts.met[2], counts.met[3], counts.met[4],
        findings.size());
    for (const std::string& line : findings) fmt::print("  {}\n", line);
    found += !findings.empty();
  }
  return found;
}
