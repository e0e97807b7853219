// Goes through the points of memory over time once.
#include "report/share_samples.h"

#include <algorithm>
#include <numeric>

namespace ebbtide::report {
namespace {
constexpr double kRounds = 3;
}

ShareSamples SampleMemory(const share::Mix& mix, std::size_t count) {
  ShareSamples out;
  const share::Together& together = mix.together;
  if (!mix.fits || together.memory.empty() || count == 0) return out;
  out.end = together.end;
  out.begin = std::max(together.begin, out.end - kRounds * static_cast<double>(together.round));
  const std::size_t jobs = mix.jobs.size();
  out.live.resize(jobs), out.height.resize(jobs);
  std::vector<Bytes> live(jobs, 0), height(jobs, 0), best_live, best_height;
  Bytes best = -1;
  const auto look = [&] {
    const Bytes sum = std::accumulate(live.begin(), live.end(), Bytes{0});
    if (sum > best) best = sum, best_live = live, best_height = height;
  };
  std::size_t next = 0;
  const auto take = [&] {
    live[together.memory[next].job] = together.memory[next].live;
    height[together.memory[next].job] = together.memory[next].height;
    ++next;
  };
  while (next < together.memory.size() && together.memory[next].at <= out.begin) take();
  for (std::size_t i = 0; i < count; ++i) {
    const double width = (out.end - out.begin) / static_cast<double>(count);
    best = -1;
    look();
    // Points of one moment belong together.
    while (next < together.memory.size() && together.memory[next].at < out.begin + static_cast<double>(i + 1) * width) {
      const double at = together.memory[next].at;
      while (next < together.memory.size() && together.memory[next].at == at) take();
      look();
    }
    out.at.push_back(static_cast<double>(i) * width);
    for (std::size_t job = 0; job < jobs; ++job) {
      out.live[job].push_back(best_live[job]);
      out.height[job].push_back(best_height[job]);
    }
  }
  return out;
}

}  // namespace ebbtide::report
