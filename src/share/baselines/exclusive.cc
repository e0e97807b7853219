// One after the other: what a user does who has one GPU and no way to share it.
#include <algorithm>

#include "share/baselines/baseline.h"

namespace ebbtide::share {

BaselineResult RunExclusive(const BaselineInput& input) {
  BaselineResult out{.name = "exclusive", .fits = true, .note = {}, .together = {}};
  for (const Job& job : input.jobs) {
    const Bytes peak = job.placement.state + job.placement.live_peak;
    out.memory = std::max(out.memory, peak);
    out.together.round += job.alone;
  }
  if (out.memory > input.options.capacity) {
    out.fits = false;
    out.note = fmt::format("one needs {} alone", FormatBytes(out.memory));
  }
  for (std::size_t i = 0; i < input.jobs.size(); ++i) {
    out.together.jobs.push_back({.iterations_per_second = 1e9 / static_cast<double>(out.together.round)});
  }
  out.together.throughput = 1;
  return out;
}

}  // namespace ebbtide::share
