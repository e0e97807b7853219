// Plans as jobs: what a Result holds and owns, that infeasible is an answer, and that stops and limits end the work.
#include "jobs/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/simulate.h"
#include "plan/validate.h"
#include "sim/simulate.h"
#include "tests/jobs/stop_after.h"
#include "tests/support/hand_graph.h"

namespace ebbtide::jobs {
namespace {

using testing::HasSubstr;

PlanRequest Small(const std::string& budget) {
  PlanRequest request;
  request.model.model = "mlp";
  request.model.options.widths = {64, 256, 256, 256, 256, 256, 256, 10};
  request.model.options.batch_size = 4096;
  request.model.options.device = model::Device::kCuda;
  request.gpu = *FindProfile("v100-16gb");
  request.budget = *ParseBudget(budget);
  request.evaluations = 60;
  return request;
}

ModelRequest InHand(const std::string& name, std::shared_ptr<const TrainingGraph> graph) {
  ModelRequest request;
  request.model = name;
  request.graph = std::move(graph);
  return request;
}

// Every phase that there is.
PlanRequest Everything() {
  PlanRequest request = Small("60%");
  request.compare = request.pareto = true;
  return request;
}

TEST(Plan, ResultsOwnWhatTheySpeakOf) {
  Result<PlanResult> result = Fail("none yet");
  {
    const PlanRequest request = Small("60%");
    result = Plan(request, {});
  }
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_TRUE(result->feasible());
  EXPECT_EQ(result->budget, static_cast<Bytes>(static_cast<double>(result->plain_peak) * 60 / 100));
  EXPECT_LE(result->planned.plan->peak, result->budget);
  EXPECT_GE(result->planned.plan->time, std::max(result->lower_bound, result->plain_time));
  EXPECT_LE(result->minimum.found, result->planned.plan->peak);
  EXPECT_TRUE(plan::CheckPlan(*result->planned.plan, *result->graph));
  EXPECT_EQ(result->planned.plan->gpu, "v100-16gb");
  const sim::Outcome again =
      sim::Simulate(*result->workload, result->planned.plan->schedule, result->planned.plan->link);
  EXPECT_EQ(again.time, result->planned.plan->time);
  EXPECT_GT(result->summary.moved.size(), 0u);
}

TEST(Plan, AGraphInHandIsNotCopied) {
  PlanRequest request = Small("60%");
  request.bound = false;
  const auto first = Plan(request, {});
  ASSERT_TRUE(first);
  request.model = InHand("in hand", first->graph);
  const auto second = Plan(request, {});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->graph.get(), first->graph.get());
  EXPECT_EQ(second->model, "in hand");
  EXPECT_EQ(plan::PlanJson(*second->planned.plan), plan::PlanJson(*first->planned.plan));
}

TEST(Plan, InfeasibleIsAnAnswer) {
  const auto result = Plan(Small("100KiB"), {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(result->feasible());
  EXPECT_GE(result->minimum.found, result->minimum.floor);
  EXPECT_GT(result->minimum.floor, result->budget);
  // The smallest budget found to work does.
  const auto smallest = Plan(Small(std::to_string(result->minimum.found)), {});
  ASSERT_TRUE(smallest);
  EXPECT_TRUE(smallest->feasible());
}

TEST(Plan, RefusesWhatItDoesNotKnow) {
  PlanRequest request = Small("60%");
  request.policy = "hom";
  EXPECT_EQ(Plan(request, {}).error().message, "no policy is called hom; did you mean home?");
  request = Small("60%");
  request.time_limit = -1;
  EXPECT_EQ(Plan(request, {}).error().message, "--time-limit: expected seconds from 0 on, found -1");
  request = Small("60%");
  request.model.model = "";
  EXPECT_THAT(Plan(request, {}).error().message, HasSubstr("expected a MODEL"));
}

// Wherever the stop falls, the job ends with kStopped, asks no more, and does hardly anything beside.
TEST(Plan, StopsInEveryPhase) {
  StopAfter never(StopAfter::kNever);
  const auto whole = Plan(Everything(), never.context);
  ASSERT_TRUE(whole) << whole.error().message;
  ASSERT_GT(never.asked, 1000);
  constexpr int kParts = 12;
  for (int part = 0; part < kParts; ++part) {
    StopAfter stop(never.asked * part / kParts);
    const auto result = Plan(Everything(), stop.context);
    ASSERT_FALSE(result) << "part " << part;
    EXPECT_EQ(result.error().kind, ErrorKind::kStopped);
    EXPECT_EQ(stop.asked, stop.least + 1);
    EXPECT_LE(stop.told_after, 4) << "part " << part;
    EXPECT_LE(stop.told, never.told);
  }
}

TEST(Plan, WhoeverMayStopItGetsTheSamePlan) {
  StopAfter never(StopAfter::kNever);
  const auto stoppable = Plan(Everything(), never.context);
  const auto plain = Plan(Everything(), {});
  ASSERT_TRUE(stoppable && plain);
  EXPECT_EQ(plan::PlanJson(*stoppable->planned.plan), plan::PlanJson(*plain->planned.plan));
  EXPECT_EQ(stoppable->lower_bound, plain->lower_bound);
  EXPECT_EQ(stoppable->minimum.found, plain->minimum.found);
  EXPECT_EQ(stoppable->pareto.size(), plain->pareto.size());
}

TEST(Plan, TimeEndsSearchesButNotTheAnswer) {
  PlanRequest request = Everything();
  request.evaluations = 1'000'000'000;  // for years
  request.time_limit = 1e-9;
  const auto result = Plan(request, {});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_TRUE(result->feasible());
  EXPECT_TRUE(result->planned.stopped_early);
  EXPECT_LT(result->planned.evaluations, 1000);
  EXPECT_LE(result->planned.plan->peak, result->budget);
  EXPECT_GE(result->minimum.found, result->minimum.floor);
  EXPECT_LE(result->lower_bound, result->planned.plan->time);
}

TEST(Plan, TellsItsPhases) {
  std::vector<std::string> phases;
  JobContext context;
  context.progress = [&](const Progress& moment) {
    if (phases.empty() || phases.back() != moment.phase) phases.push_back(moment.phase);
    EXPECT_LT(moment.part, moment.parts);
  };
  ASSERT_TRUE(Plan(Small("60%"), context));
  EXPECT_THAT(phases, testing::ElementsAre("smallest budget", "searching", "lower bound"));
}

// ---- Replays of them
SimulateRequest ReplayOf(const PlanResult& planned) {
  SimulateRequest request;
  request.model = InHand("mlp", planned.graph);
  request.in_hand = planned.planned.plan;
  return request;
}

TEST(Simulate, GivesWhatThePlanPredicts) {
  const auto planned = Plan(Small("60%"), {});
  ASSERT_TRUE(planned && planned->feasible());
  const auto result = Simulate(ReplayOf(*planned), {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->replayed.gpu, "v100-16gb");  // the plan's
  EXPECT_EQ(result->replayed.planned.plan->time, planned->planned.plan->time);
  EXPECT_EQ(result->replayed.planned.plan->peak, planned->planned.plan->peak);
  EXPECT_EQ(result->replayed.summary.swapped.bytes, planned->summary.swapped.bytes);
  EXPECT_EQ(result->replayed.summary.recomputed.bytes, planned->summary.recomputed.bytes);
}

TEST(Simulate, APlanThatBreaksARuleIsAnErrorOfItsKind) {
  const auto planned = Plan(Small("60%"), {});
  ASSERT_TRUE(planned && planned->feasible());
  SimulateRequest request = ReplayOf(*planned);
  request.in_hand->schedule.stays.pop_back();
  const auto broken = Simulate(request, {});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().kind, ErrorKind::kPlan);
  EXPECT_THAT(broken.error().message, testing::StartsWith("the plan: "));

  PlanRequest other = Small("60%");
  other.model.options.batch_size = 4097;
  other.bound = false;
  request = ReplayOf(*planned);
  request.model.graph = Plan(other, {})->graph;
  EXPECT_EQ(Simulate(request, {}).error().kind, ErrorKind::kPlan);
}

TEST(Simulate, Stops) {
  const auto planned = Plan(Small("60%"), {});
  ASSERT_TRUE(planned && planned->feasible());
  StopAfter stop(0);
  const auto result = Simulate(ReplayOf(*planned), stop.context);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kStopped);
}

// Two branches of 100 bytes, each with a result of 1, in turns: 202 bytes with the input's. One behind the other it is
// 103, and without copies and runs again there is no other way into 150.
TEST(Plan, InAnotherOrderIsForTheGraphAsItIs) {
  HandGraph step;
  const TensorId x = step.Present(1, StorageKind::kInput);
  const TensorId a = step.Make("op", {x}, 100, {.time = 10});
  const TensorId b = step.Make("op", {x}, 100, {.time = 10});
  const TensorId small_a = step.Make("op", {a}, 1, {.time = 10});
  const TensorId small_b = step.Make("op", {b}, 1, {.time = 10});
  step.graph.outputs.push_back(step.Make("op", {small_a, small_b}, 1, {.time = 10}));
  const auto graph = std::make_shared<const TrainingGraph>(std::move(step.graph));
  PlanRequest request = Small("150B");
  request.model = InHand("branches", graph);
  request.may_swap = request.may_recompute = false;
  const auto own = Plan(request, {});
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_FALSE(own->feasible());
  request.may_reorder = true;
  const auto other = Plan(request, {});
  ASSERT_TRUE(other) << other.error().message;
  ASSERT_TRUE(other->feasible());
  EXPECT_EQ(other->planned.plan->peak, 103);
  EXPECT_EQ(other->planned.plan->time, 50);
  EXPECT_EQ(other->plain_peak, 202);
  EXPECT_EQ(other->minimum.found, 103);
  EXPECT_EQ(other->lower_bound, 0);
  EXPECT_TRUE(plan::CheckPlan(*other->planned.plan, *graph));
  const auto replayed =
      Simulate({.model = request.model, .plan_file = "", .in_hand = other->planned.plan, .gpu = request.gpu}, {});
  ASSERT_TRUE(replayed) << replayed.error().message;
  EXPECT_EQ(replayed->replayed.planned.plan->peak, 103);
  EXPECT_EQ(replayed->replayed.plain_peak, 202);
  request.pareto = true;
  EXPECT_FALSE(Plan(request, {}));
}

}  // namespace
}  // namespace ebbtide::jobs
