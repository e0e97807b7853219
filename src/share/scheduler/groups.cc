// Cuts a step into groups by dynamic programming.
#include "share/scheduler/groups.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <optional>

namespace ebbtide::share {
namespace {

constexpr Bytes kNever = std::numeric_limits<Bytes>::max();

// The step that ends at the boundary.
StepId Before(StepId boundary) { return StepId(boundary.index() - 1); }

constexpr std::size_t kMostPlaces = 4096;
constexpr std::size_t kMostGroups = 1024;  // fewer than there are places, so that a cut exists

// Where a cut may be, from the first boundary to the last: everywhere, or, of a long step, at the least place of each
// stretch.
std::vector<StepId> Places(const StepProfile& profile) {
  const std::size_t steps = profile.steps(), stretch = (steps + kMostPlaces - 1) / kMostPlaces;
  std::vector<StepId> out = {StepId(0)};
  for (std::size_t begin = 0; begin < steps; begin += stretch) {
    const std::size_t end = std::min(begin + stretch, steps);
    StepId least(begin);
    for (const StepId step : Ids(StepId(begin), StepId(end))) {
      if (profile.crossing[step] < profile.crossing[least]) least = step;
    }
    if (end < steps) out.push_back(least.Next());
  }
  out.emplace_back(steps);
  return out;
}

// The ends of the groups of the least cut, if there is one within the tolerance.
std::optional<std::vector<StepId>> LeastCut(const StepProfile& profile, const IdVector<StepId, Nanos>& clock,
                                            int groups, double tolerance) {
  const double mean = static_cast<double>(clock.back()) / groups;
  const auto most = static_cast<Nanos>(mean * (1 + tolerance)), least = static_cast<Nanos>(mean * (1 - tolerance));
  const std::vector<StepId> places = Places(profile);
  const std::size_t last = places.size() - 1;
  // By place. best[p]: the least crossing bytes of cutting the steps before it into the groups so far; from[g][p]: the
  // place where the last of them begins.
  std::vector<Bytes> best(places.size(), kNever), next(places.size());
  std::vector<std::vector<std::uint32_t>> from(groups, std::vector<std::uint32_t>(places.size(), 0));
  best[0] = 0;
  for (int g = 0; g < groups; ++g) {
    std::ranges::fill(next, kNever);
    for (std::size_t end = g + 1; end <= last; ++end) {
      const Bytes cost = end == last ? 0 : profile.crossing[Before(places[end])];
      for (std::size_t begin = end; begin-- > 0;) {
        const Nanos time = clock[places[end]] - clock[places[begin]];
        if (time > most) break;
        if (time < least || best[begin] == kNever || best[begin] + cost > next[end]) continue;
        next[end] = best[begin] + cost;
        from[g][end] = static_cast<std::uint32_t>(begin);
      }
    }
    best.swap(next);
  }
  if (best[last] == kNever) return std::nullopt;
  std::vector<StepId> ends(groups);
  auto end = static_cast<std::uint32_t>(last);
  for (int g = groups; g-- > 0; end = from[g][end]) ends[g] = places[end];
  return ends;
}

}  // namespace

std::vector<NodeGroup> GroupsAt(const StepProfile& profile, const std::vector<StepId>& ends) {
  std::vector<NodeGroup> out;
  StepId begin(0);
  for (const StepId end : ends) {
    assert(end > begin && end <= profile.time.end_id());
    NodeGroup group{.begin = begin, .end = end, .peak = out.empty() ? 0 : out.back().after};
    for (const StepId step : Ids(begin, end)) {
      group.time += profile.time[step];
      group.peak = std::max({group.peak, profile.height[step], profile.after[step]});
    }
    group.after = profile.after[Before(end)];
    group.crossing = end == profile.time.end_id() ? 0 : profile.crossing[Before(end)];
    out.push_back(group);
    begin = end;
  }
  return out;
}

Cut CutGroups(const StepProfile& profile, const CutOptions& options) {
  if (profile.steps() == 0) return {};
  IdVector<StepId, Nanos> clock(profile.steps() + 1, 0);
  for (const StepId step : profile.time.ids()) clock[step.Next()] = clock[step] + profile.time[step];
  const int groups =
      std::clamp<int>(options.groups, 1, static_cast<int>(std::min<std::size_t>(profile.steps(), kMostGroups)));
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
