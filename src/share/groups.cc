#include "share/groups.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <optional>

namespace ebbtide::share {
namespace {

constexpr Bytes kNever = std::numeric_limits<Bytes>::max();

// The ends of the groups of the least cut, if there is one within the tolerance.
std::optional<std::vector<std::uint32_t>> LeastCut(const StepProfile& profile, const std::vector<Nanos>& clock,
                                                   int groups, double tolerance) {
  const std::size_t steps = profile.steps();
  const double mean = static_cast<double>(clock.back()) / groups;
  const auto most = static_cast<Nanos>(mean * (1 + tolerance)), least = static_cast<Nanos>(mean * (1 - tolerance));
  // best[s]: the least crossing bytes of cutting the steps before s into the groups so far; from[g][s]: where the last
  // of them begins.
  std::vector<Bytes> best(steps + 1, kNever), next(steps + 1);
  std::vector<std::vector<std::uint32_t>> from(groups, std::vector<std::uint32_t>(steps + 1, 0));
  best[0] = 0;
  for (int g = 0; g < groups; ++g) {
    std::ranges::fill(next, kNever);
    for (std::size_t end = g + 1; end <= steps; ++end) {
      const Bytes cost = end == steps ? 0 : profile.crossing[end - 1];
      for (std::size_t begin = end; begin-- > 0;) {
        const Nanos time = clock[end] - clock[begin];
        if (time > most) break;
        if (time < least || best[begin] == kNever || best[begin] + cost > next[end]) continue;
        next[end] = best[begin] + cost;
        from[g][end] = static_cast<std::uint32_t>(begin);
      }
    }
    best.swap(next);
  }
  if (best[steps] == kNever) return std::nullopt;
  std::vector<std::uint32_t> ends(groups);
  auto end = static_cast<std::uint32_t>(steps);
  for (int g = groups; g-- > 0; end = from[g][end]) ends[g] = end;
  return ends;
}

}  // namespace

std::vector<NodeGroup> GroupsAt(const StepProfile& profile, const std::vector<std::uint32_t>& ends) {
  std::vector<NodeGroup> out;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends) {
    assert(end > begin && end <= profile.steps());
    NodeGroup group{.begin = begin, .end = end, .peak = out.empty() ? 0 : out.back().after};
    for (std::uint32_t step = begin; step < end; ++step) {
      group.time += profile.time[step];
      group.peak = std::max({group.peak, profile.height[step], profile.after[step]});
    }
    group.after = profile.after[end - 1];
    group.crossing = end == profile.steps() ? 0 : profile.crossing[end - 1];
    out.push_back(group);
    begin = end;
  }
  return out;
}

Cut CutGroups(const StepProfile& profile, const CutOptions& options) {
  if (profile.steps() == 0) return {};
  std::vector<Nanos> clock(profile.steps() + 1, 0);
  for (std::size_t step = 0; step < profile.steps(); ++step) clock[step + 1] = clock[step] + profile.time[step];
  const int groups = std::clamp<int>(options.groups, 1, static_cast<int>(std::min<std::size_t>(profile.steps(), 4096)));
  // With a tolerance of `groups` a group may take all of the time, and none of it: there is always a cut.
  for (double tolerance = std::max(options.tolerance, 0.01);; tolerance = std::min(2 * tolerance, double(groups))) {
    const auto ends = LeastCut(profile, clock, groups, tolerance);
    if (!ends) continue;
    Cut cut{.groups = GroupsAt(profile, *ends), .tolerance = tolerance};
    for (const NodeGroup& group : cut.groups) cut.crossing += group.crossing;
    return cut;
  }
}

}  // namespace ebbtide::share
