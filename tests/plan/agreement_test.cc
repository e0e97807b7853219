// Laws of all schedules: what any preferences or any policy lead to passes the validator, which sees the memory that
// the simulator sees, and gives what the plain step gives on memory that is really there.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "graph/check.h"
#include "plan/search/evaluate.h"
#include "plan/validate.h"
#include "sim/simulate.h"
#include "sim/trim.h"
#include "tests/plan/memory_model.h"
#include "tests/plan/wild_schedule.h"
#include "tests/support/random_plans.h"

namespace ebbtide::plan {
namespace {

// All that holds for a schedule without addresses. Gives it addresses. `keeps_state`: what is there before the step
// stays.
void ExpectRight(const Task& task, sim::Schedule& schedule, bool keeps_state = true) {
  const sim::Workload& workload = task.workload;
  const Limits& limits = task.problem.limits;
  const auto validate = [&](Bytes budget, bool placed) {
    return Validate(task.graph, schedule,
                    {.budget = budget, .alignment = workload.alignment, .needs_addresses = placed});
  };
  const Status valid = validate(limits.budget, false);
  ASSERT_TRUE(valid) << valid.error().message;
  const sim::Outcome outcome = sim::Simulate(workload, schedule, task.problem.link);
  const IdVector<sim::StepId, Bytes> bytes = sim::StepBytes(workload, schedule);
  ASSERT_EQ(outcome.peak, *std::ranges::max_element(bytes));
  ASSERT_LE(outcome.peak, limits.budget);
  // The validator counts the same bytes: this budget is enough for it, one byte less is not.
  ASSERT_TRUE(validate(outcome.peak, false));
  ASSERT_FALSE(validate(outcome.peak - 1, false));
  ASSERT_LE(outcome.host_peak, limits.host);
  if (keeps_state) {
    ASSERT_GE(outcome.peak, Floor(task.problem));
  }
  // Compute does nothing but run ops and wait.
  ASSERT_EQ(outcome.time, sim::PlainTime(workload) + outcome.recompute + outcome.wait_for_memory +
                              outcome.wait_for_data + outcome.drain);
  ASSERT_EQ(outcome.drain, 0);
  if (!limits.may_swap) {
    ASSERT_EQ(outcome.copied_out + outcome.copied_in, 0);
  }
  if (!limits.may_recompute) {
    ASSERT_EQ(schedule.steps.size(), workload.ops());
  }
  const Bytes height = GiveAddresses(workload, schedule);
  ASSERT_GE(height, outcome.peak);
  const Status placed = validate(height, true);
  ASSERT_TRUE(placed) << placed.error().message;
  ASSERT_FALSE(validate(height - 1, true));
  ASSERT_TRUE(GivesTheSame(task.graph, schedule, workload.alignment, height));
}

TEST(Agreement, RolloutsOfAnyPreferences) {
  int feasible = 0;
  const int cases = Cases(3000);
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto task = RandomTask(static_cast<std::uint64_t>(seed));
    if (seed < 300) {
      const Status checked = Check(task->graph);
      ASSERT_TRUE(checked) << checked.error().message;
    }
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const Preferences preferences = RandomPreferences(task->workload, random);
    Rollout rollout(task->problem, preferences, /*record=*/true);
    const bool ran = rollout.Run();
    const Nanos time = rollout.time();
    ASSERT_EQ(Evaluate(task->problem, preferences), ran ? time : kInfeasible);
    if (!ran) continue;
    ++feasible;
    sim::Schedule schedule = rollout.TakeSchedule();
    ExpectRight(*task, schedule);
    if (HasFatalFailure()) return;
    const Nanos simulated = sim::Simulate(task->workload, schedule, task->problem.link).time;
    ASSERT_LE(simulated, time);
    // Shorter stays are as right, and take as long or less.
    sim::Trim(task->workload, task->problem.link, schedule);
    ExpectRight(*task, schedule);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(feasible, cases / 2);
  Tell(2 * feasible, "rollouts, as they are and trimmed: validator, simulator and memory agree");
}

// Also where no planner would go, and for budgets that are enough and that are not.
TEST(Agreement, WildSchedules) {
  int schedules = 0, fitting = 0, busy = 0;
  const int cases = Cases(2000);
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto task = RandomTask(4'000'000 + static_cast<std::uint64_t>(seed));
    const bool keeps_state = seed % 2 == 0;
    std::optional<sim::Schedule> schedule = WildSchedule(task->problem, static_cast<std::uint64_t>(seed), !keeps_state);
    if (!schedule) continue;
    ++schedules;
    busy += schedule->stays.size() > task->workload.storages();
    const Bytes peak = sim::Simulate(task->workload, *schedule, task->problem.link).peak;
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const Bytes budget = std::uniform_int_distribution<Bytes>(peak / 2, peak + peak / 2)(random);
    const ValidateOptions options{.budget = budget, .alignment = task->workload.alignment, .needs_addresses = false};
    ASSERT_EQ(Validate(task->graph, *schedule, options).has_value(), peak <= budget);
    fitting += peak <= budget;
    task->problem.limits.budget = peak;
    ExpectRight(*task, *schedule, keeps_state);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(schedules, cases / 2);
  EXPECT_GT(busy, schedules / 3);
  EXPECT_GT(fitting, schedules / 4);
  EXPECT_LT(fitting, schedules * 3 / 4);
  Tell(schedules, "wild schedules, with enough memory and with too little: validator, simulator and memory agree");
}

TEST(Agreement, EveryPolicy) {
  std::map<std::string_view, int> feasible;
  const int cases = Cases(600) / 2;
  for (int seed = 0; seed < cases; ++seed) {
    const auto task = RandomTask(1'000'000 + static_cast<std::uint64_t>(seed));
    for (const Policy& policy : Policies()) {
      if (policy.name == "exact" && seed % 30 != 0) continue;  // it takes its time
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", policy " << policy.name);
      PolicyInput input{.graph = task->graph, .problem = task->problem, .search = {}};
      input.search.evaluations = 40;
      input.search.seed = static_cast<std::uint64_t>(seed);
      PolicyResult result = policy.run(input);
      if (!result.schedule) continue;
      ++feasible[policy.name];
      ExpectRight(*task, *result.schedule);
      if (HasFatalFailure()) return;
    }
  }
  for (const Policy& policy : Policies()) EXPECT_GT(feasible[policy.name], 0) << policy.name;
}

}  // namespace
}  // namespace ebbtide::plan
