// The cut into groups, against every cut there is.
#include "share/scheduler/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tests/support/id_literals.h"

namespace ebbtide::share {
namespace {

using ::testing::ElementsAre;

StepProfile RandomProfile(std::mt19937& random, std::size_t steps) {
  StepProfile out;
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (std::size_t step = 0; step < steps; ++step) {
    out.time.push_back(draw(0, 9));
    out.after.push_back(step + 1 == steps ? 0 : draw(0, 50));
    out.crossing.push_back(step + 1 == steps ? 0 : draw(0, out.after.back()));
    out.height.push_back(std::max(out.after.back(), step == 0 ? 0 : out.after[StepId(step - 1)]) + draw(0, 20));
  }
  return out;
}

// By recursion over all cuts.
Bytes LeastByHand(const StepProfile& profile, int groups, double tolerance) {
  Nanos all = 0;
  for (const Nanos time : profile.time) all += time;
  const double mean = static_cast<double>(all) / groups;
  const auto most = static_cast<Nanos>(mean * (1 + tolerance)), least = static_cast<Nanos>(mean * (1 - tolerance));
  Bytes best = -1;
  const std::function<void(std::size_t, int, Bytes)> go = [&](std::size_t begin, int left, Bytes cost) {
    Nanos time = 0;
    for (std::size_t end = begin + 1; end <= profile.steps(); ++end) {
      time += profile.time[StepId(end - 1)];
      if (time < least || time > most) continue;
      if (left == 1) {
        if (end == profile.steps() && (best < 0 || cost < best)) best = cost;
      } else if (end < profile.steps()) {
        go(end, left - 1, cost + profile.crossing[StepId(end - 1)]);
      }
    }
  };
  go(0, groups, 0);
  return best;
}

TEST(Groups, NoCutCrossesLess) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const StepProfile profile = RandomProfile(random, 1 + trial % 10);
    const CutOptions options{.groups = 1 + trial % 4, .tolerance = 0.4};
    const Cut cut = CutGroups(profile, options);
    const int groups = static_cast<int>(cut.groups.size());
    ASSERT_EQ(groups, std::min<int>(options.groups, static_cast<int>(profile.steps())));
    EXPECT_EQ(cut.crossing, LeastByHand(profile, groups, cut.tolerance)) << trial;
    if (cut.tolerance > options.tolerance) {  // the one before had no cut
      EXPECT_EQ(LeastByHand(profile, groups, std::max(cut.tolerance / 2, options.tolerance)), -1) << trial;
    }
  }
}

TEST(Groups, ALongStepIsCutToo) {
  std::mt19937 random(3);
  const StepProfile profile = RandomProfile(random, 30'000);
  const Cut cut = CutGroups(profile, {.groups = 1000});
  EXPECT_EQ(cut.groups.size(), 1000u);
  EXPECT_EQ(cut.groups.back().end, StepId(30'000));
  EXPECT_EQ(cut.tolerance, CutOptions{}.tolerance);
}

TEST(Groups, HeightsAreThoseOfTheSteps) {
  const StepProfile profile{
      .time = {1, 1, 1, 1}, .height = {10, 30, 40, 20}, .after = {10, 25, 20, 0}, .crossing = {9, 20, 15, 0}};
  const std::vector<NodeGroup> groups = GroupsAt(profile, {2_step, 3_step, 4_step});
  EXPECT_THAT(groups,
              ElementsAre(NodeGroup{.begin = 0_step, .end = 2_step, .time = 2, .peak = 30, .after = 25, .crossing = 20},
                          NodeGroup{.begin = 2_step, .end = 3_step, .time = 1, .peak = 40, .after = 20, .crossing = 15},
                          NodeGroup{.begin = 3_step, .end = 4_step, .time = 1, .peak = 20, .after = 0, .crossing = 0}));
}

TEST(Groups, AStepThatIsTooLongGetsItsGroup) {
  const StepProfile profile{
      .time = {1, 97, 1, 1}, .height = {1, 1, 1, 1}, .after = {1, 1, 1, 0}, .crossing = {5, 5, 5, 0}};
  const Cut cut = CutGroups(profile, {.groups = 3, .tolerance = 0.25});
  EXPECT_EQ(cut.groups.size(), 3u);
  EXPECT_GT(cut.tolerance, 0.25);
}

}  // namespace
}  // namespace ebbtide::share
