// Decisions: memory that is kept up change by change is that which is counted from nothing, and any decisions make a
// schedule that the validator and a model of memory with contents accept.
#include "plan/decide/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/decide/decide.h"
#include "plan/validate.h"
#include "sim/simulate.h"
#include "tests/plan/memory_model.h"
#include "tests/support/hand_graph.h"
#include "tests/support/random_plans.h"

namespace ebbtide::plan {
namespace {

constexpr Bytes kEnough = Bytes{1} << 50;

// Adds and removes runs at random.
class Wanderer {
 public:
  Wanderer(Retention& retention, const Units& units, std::uint64_t seed)
      : retention_(retention), units_(units), random_(seed) {}

  void Change(std::size_t ops) {
    if (!retention_.active().empty() && Below(3) == 0) {
      retention_.RemoveAt(retention_.at(retention_.active()[Below(retention_.active().size())]));
      return;
    }
    if (units_.units.empty()) return;
    const UnitId unit(Below(units_.units.size()));
    // Before a first run, the end, or another run again.
    const bool beside = !retention_.active().empty() && Below(2) == 0;
    const RunId before = beside ? retention_.active()[Below(retention_.active().size())] : RunId(Below(ops + 1));
    if (retention_.May(unit, Retention::StageOf(retention_.at(before)))) retention_.Add(unit, before);
  }

 private:
  std::size_t Below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  Retention& retention_;
  const Units& units_;
  std::mt19937_64 random_;
};

void ExpectCounted(const Retention& retention, Bytes budget) {
  const std::vector<Bytes> counted = retention.CountedLevels();
  Bytes excess = 0, peak = 0;
  for (std::size_t t = 0; t < counted.size(); ++t) {
    if (counted[t] > 0) {
      ASSERT_EQ(retention.levels()[t], counted[t]) << "stage " << t;
    }
    excess += std::max<Bytes>(counted[t] - budget, 0);
    peak = std::max(peak, counted[t]);
  }
  ASSERT_EQ(retention.levels().excess(), excess);
  ASSERT_EQ(retention.peak(), peak);
}

TEST(Retention, IsKeptUpAsItIsCounted) {
  int schedules = 0, again = 0;
  const int cases = Cases(300);
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto task = RandomTask(7'000'000 + static_cast<std::uint64_t>(seed));
    task->problem.limits.may_recompute = true;
    const Units units = FindUnits(task->problem);
    Retention retention(task->problem, units);
    Wanderer wanderer(retention, units, static_cast<std::uint64_t>(seed));
    for (int i = 0; i < 40; ++i) {
      wanderer.Change(task->workload.ops());
      if (i % 8 == 0) ExpectCounted(retention, task->problem.limits.budget);
      if (HasFatalFailure()) return;
    }
    ExpectCounted(retention, task->problem.limits.budget);
    // The schedule takes the time and, but for what is counted too generously where several ops make a storage, the
    // memory that the decisions have.
    sim::Schedule schedule = retention.ToSchedule();
    const sim::Outcome outcome = sim::Simulate(task->workload, schedule, task->problem.link);
    ASSERT_EQ(outcome.time, sim::PlainTime(task->workload) + retention.again());
    ASSERT_LE(outcome.peak, retention.peak());
    const bool single = std::ranges::all_of(units.units, [](const Unit& unit) { return unit.parts.size() == 1; });
    if (single) {
      ASSERT_EQ(outcome.peak, retention.peak());
    }
    const Bytes alignment = task->workload.alignment;
    const Status valid =
        Validate(task->graph, schedule, {.budget = kEnough, .alignment = alignment, .needs_addresses = false});
    ASSERT_TRUE(valid) << valid.error().message;
    const Bytes height = GiveAddresses(task->workload, schedule);
    ASSERT_TRUE(GivesTheSame(task->graph, schedule, alignment, height));
    // Nothing is lost on the way to a list of runs and back, but what is of no use.
    Retention other(task->problem, units);
    other.Load(retention.Save());
    ExpectCounted(other, task->problem.limits.budget);
    ASSERT_LE(other.again(), retention.again());
    ++schedules;
    again += !retention.active().empty();
  }
  EXPECT_GT(again, schedules / 2);
  Tell(schedules, "sets of decisions: kept up as counted, valid, and the same contents");
}

TEST(Retention, ChangesAreUndone) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto task = RandomTask(7'500'000 + seed);
    task->problem.limits.may_recompute = true;
    const Units units = FindUnits(task->problem);
    if (units.units.empty()) continue;
    Retention retention(task->problem, units);
    Wanderer wanderer(retention, units, seed);
    for (int i = 0; i < 20; ++i) wanderer.Change(task->workload.ops());
    const std::vector<RunAgain> before = retention.Save();
    const Bytes excess = retention.levels().excess();
    const Nanos again = retention.again();
    for (const UnitId unit : units.units.ids()) {
      const RunId end(task->workload.ops());
      if (!retention.May(unit, OpId(task->workload.ops()))) continue;
      const Moment at = retention.Add(unit, end);
      if (at != 0) retention.RemoveAt(at);
    }
    ASSERT_EQ(retention.Save(), before);
    ASSERT_EQ(retention.levels().excess(), excess);
    ASSERT_EQ(retention.again(), again);
  }
}

// Schedules of rollouts, copies and all, as decisions; and those with some runs changed.
TEST(Retention, TakesOverWhatOthersCopyAndRun) {
  int schedules = 0, copying = 0;
  const int cases = Cases(500);
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto task = RandomTask(9'000'000 + static_cast<std::uint64_t>(seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const Preferences preferences = RandomPreferences(task->workload, random);
    Rollout rollout(task->problem, preferences, /*record=*/true);
    if (!rollout.Run()) continue;
    const sim::Schedule theirs = rollout.TakeSchedule();
    const Units units = FindUnits(task->problem);
    const std::vector<Absence> absences = AbsencesOf(task->problem, theirs);
    Retention retention(task->problem, units, absences);
    retention.Load(RunsOf(task->problem, units, theirs));
    Wanderer wanderer(retention, units, static_cast<std::uint64_t>(seed));
    for (int i = 0; i < 3; ++i) {
      ExpectCounted(retention, task->problem.limits.budget);
      if (HasFatalFailure()) return;
      sim::Schedule schedule = retention.ToSchedule();
      const Status valid =
          Validate(task->graph, schedule,
                   {.budget = retention.peak(), .alignment = task->workload.alignment, .needs_addresses = false});
      ASSERT_TRUE(valid) << valid.error().message;
      const Bytes height = GiveAddresses(task->workload, schedule);
      ASSERT_TRUE(GivesTheSame(task->graph, schedule, task->workload.alignment, height));
      ++schedules;
      for (int k = 0; k < 6; ++k) wanderer.Change(task->workload.ops());
    }
    copying += !absences.empty();
  }
  EXPECT_GT(copying, cases / 20);
  Tell(schedules, "schedules of rollouts as decisions: kept up as counted, valid, and the same contents");
}

// What the search returns is within the budget, and the same at any number of threads.
TEST(Decide, KeepsTheBudgetAtAnyNumberOfThreads) {
  int found = 0;
  const int cases = Cases(60);
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto task = RandomTask(8'000'000 + static_cast<std::uint64_t>(seed));
    if (!task->problem.limits.may_recompute) continue;
    DecideOptions options{
        .changes = 2000, .seed = static_cast<std::uint64_t>(seed), .start = {}, .progress = {}, .stop = {}};
    const DecideResult alone = Decide(task->problem, options);
    options.threads = 3;
    const DecideResult beside = Decide(task->problem, options);
    ASSERT_EQ(alone.schedule, beside.schedule);
    ASSERT_EQ(alone.changes, beside.changes);
    if (!alone.schedule) continue;
    ++found;
    const Status valid = Validate(
        task->graph, *alone.schedule,
        {.budget = task->problem.limits.budget, .alignment = task->workload.alignment, .needs_addresses = false});
    ASSERT_TRUE(valid) << valid.error().message;
  }
  EXPECT_GT(found, 0);
  Tell(found, "schedules of the search over decisions: valid, the same at any number of threads");
}

}  // namespace
}  // namespace ebbtide::plan
