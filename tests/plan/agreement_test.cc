// Laws of all schedules: what any preferences or any policy lead to passes the validator, which sees the memory that
// the simulator sees, and gives what the plain step gives on memory that is really there.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "graph/check.h"
#include "plan/bound/bound.h"
#include "plan/search/evaluate.h"
#include "plan/validate.h"
#include "sim/simulate.h"
#include "sim/trim.h"
#include "tests/plan/memory_model.h"
#include "tests/plan/wild_schedule.h"
#include "tests/support/random_plans.h"

namespace ebbtide::plan {
namespace {

// The law of streams, read off the timeline: of two steps that touch a storage, one of which writes it, the earlier in
// the schedule has ended when the later begins; so has a copy, for a step that needs it; and nothing touches a storage
// when its memory goes.
void ExpectNothingTooSoon(const Task& task, const sim::Schedule& schedule) {
  const sim::Workload& workload = task.workload;
  const sim::Outcome outcome = sim::Simulate(workload, schedule, task.problem.link, {.keep_timeline = true});
  std::vector<sim::Span> steps;
  std::map<StorageId, std::vector<sim::Span>> came;
  for (const sim::Span& span : outcome.timeline) {
    if (span.op.valid()) steps.push_back(span);
    if (span.stream == sim::Stream::kToDevice) came[span.storage].push_back(span);
  }
  ASSERT_EQ(steps.size(), schedule.steps.size());
  // What an op makes when it runs again is thrown away where a stay is under way.
  const auto touches = [&](const sim::Span& step, StorageId s, bool writes, bool begins) {
    const auto has = [&](std::span<const StorageId> list) { return std::ranges::find(list, s) != list.end(); };
    if (begins && has(workload.births[step.op])) return true;
    return has(writes ? workload.changes[step.op] : workload.needs[step.op]);
  };
  for (const sim::Stay& stay : schedule.stays) {
    const StorageId s = stay.storage;
    Nanos wrote = 0, touched = 0;  // when the steps so far are done with it
    if (stay.begin == sim::Begin::kCopyIn) {
      wrote = touched = came[s].front().end;
      came[s].erase(came[s].begin());
    }
    bool is_needed = false;
    for (std::size_t k = stay.from.index(); k < stay.to.index(); ++k) {
      const bool begins = k == stay.from.index() && stay.begin != sim::Begin::kCopyIn;
      if (!touches(steps[k], s, false, begins)) continue;
      is_needed = true;
      ASSERT_GE(steps[k].begin, wrote) << "step " << k << " on storage " << s.value;
      if (touches(steps[k], s, true, begins)) {
        ASSERT_GE(steps[k].begin, touched) << "step " << k << " on storage " << s.value;
        wrote = std::max(wrote, steps[k].end);
      }
      touched = std::max(touched, steps[k].end);
    }
    if (stay.end != sim::End::kStays && is_needed) {
      ASSERT_GE(outcome.released[stay.to], touched) << "storage " << s.value << " goes at " << stay.to.value;
    }
  }
}

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
  const Nanos computing = std::accumulate(workload.time.begin(), workload.time.end(), Nanos{0});
  ASSERT_EQ(outcome.time, computing + outcome.recompute + outcome.wait_for_memory + outcome.wait_for_data +
                              outcome.wait_for_ranks + outcome.drain);
  if (workload.HasExchanges()) {
    ASSERT_GE(outcome.time, sim::PlainTime(workload));
    ExpectNothingTooSoon(task, schedule);
  } else {
    ASSERT_EQ(outcome.drain + outcome.wait_for_ranks, 0);
  }
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

// Also with collectives beside computation, where the machine that planners drive, the simulator and the law agree.
TEST(Agreement, RolloutsBesideCollectives) {
  int feasible = 0, beside = 0;
  const int cases = Cases(1500);
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto task = RandomTask(7'000'000 + static_cast<std::uint64_t>(seed), /*exchanges=*/true);
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
    const sim::Outcome outcome = sim::Simulate(task->workload, schedule, task->problem.link);
    beside += outcome.exchange > outcome.wait_for_ranks + outcome.drain;
    if (task->problem.limits.may_swap) {
      ASSERT_LE(outcome.time, time);  // copies that were begun in vain are not in the schedule
    } else {
      ASSERT_EQ(outcome.time, time);
    }
    if (seed % 10 == 0) {
      ASSERT_GE(outcome.time, LowerBound(task->problem));
    }
    sim::Trim(task->workload, task->problem.link, schedule);
    ExpectRight(*task, schedule);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(feasible, cases / 2);
  EXPECT_GT(beside, feasible / 4);  // some of it was hidden
  Tell(2 * feasible, "rollouts beside collectives, as they are and trimmed");
}

TEST(Agreement, EveryPolicyBesideCollectives) {
  const int cases = Cases(100) / 2;
  for (int seed = 0; seed < cases; ++seed) {
    const auto task = RandomTask(8'000'000 + static_cast<std::uint64_t>(seed), /*exchanges=*/true);
    for (const Policy& policy : Policies()) {
      if (policy.name == "exact" && seed % 30 != 0) continue;  // it takes its time
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", policy " << policy.name);
      PolicyInput input{.graph = task->graph, .problem = task->problem, .search = {}};
      input.search.evaluations = 40;
      input.search.seed = static_cast<std::uint64_t>(seed);
      PolicyResult result = policy.run(input);
      if (!result.schedule) continue;
      ExpectRight(*task, *result.schedule);
      if (HasFatalFailure()) return;
    }
  }
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
