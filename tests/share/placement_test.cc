// Placing in a lane: what the checker says of it, how high it gets, and that it can be mirrored.
#include "share/scheduler/placement.h"

#include <gtest/gtest.h>

#include "device/op_time.h"
#include "model/model.h"
#include "plan/make_plan.h"
#include "tests/support/hand_graph.h"
#include "tests/support/id_literals.h"

namespace ebbtide::share {
namespace {

sim::Workload Zoo(const std::string& name, std::int64_t batch) {
  model::ModelOptions options;
  options.device = model::Device::kCuda;
  options.batch_size = batch;
  const Result<TrainingGraph> graph = model::LoadModel(name, options);
  EXPECT_TRUE(graph);
  return sim::MakeWorkload(*graph, OpTimes(*graph, *FindProfile("v100-16gb")));
}

TEST(Placement, OfThePlainStep) {
  for (const char* name : {"resnet18", "vgg16", "bert-base"}) {
    const sim::Workload workload = Zoo(name, 8);
    const sim::Schedule plain = PlainSchedule(workload);
    const Placement tight = PlaceInLane(workload, plain, 0);
    ASSERT_TRUE(CheckPlacement(workload, tight)) << name;
    EXPECT_EQ(tight.state + tight.live_peak, sim::PlainPeak(workload)) << name;
    EXPECT_LE(static_cast<double>(tight.height), 1.02 * static_cast<double>(tight.live_peak)) << name;
    // With room for more the peak may rise up to it, and the height keeps near to the live bytes.
    const Placement loose = PlaceInLane(workload, plain, tight.height * 2);
    ASSERT_TRUE(CheckPlacement(workload, loose)) << name;
    EXPECT_LE(loose.height, tight.height * 2) << name;
    EXPECT_LE(CostOf(workload, loose).mean, 1.35) << name;  // a small batch: gradients count for much
    EXPECT_EQ(loose.after.back(), 0) << name;
  }
}

TEST(Placement, OfAPlan) {
  model::ModelOptions options;
  options.device = model::Device::kCuda;
  options.batch_size = 16;
  const TrainingGraph graph = *model::LoadModel("resnet18", options);
  const sim::Workload workload = sim::MakeWorkload(graph, OpTimes(graph, *FindProfile("v100-16gb")));
  const plan::Problem problem = plan::MakeProblem(workload, {}, {.budget = sim::PlainPeak(workload) * 6 / 10});
  plan::SearchOptions search;
  search.evaluations = 20;
  const plan::Planned planned = plan::MakePlan(graph, problem, **plan::FindPolicy("home"), search);
  ASSERT_TRUE(planned.plan);
  const Placement placement = PlaceInLane(workload, planned.plan->schedule, 0);
  ASSERT_TRUE(CheckPlacement(workload, placement));
  // Copies and recomputations are there: a storage has several stays.
  EXPECT_GT(placement.schedule.stays.size(), workload.storages());
  EXPECT_LE(placement.live_peak + placement.state, planned.plan->budget);
  EXPECT_LE(static_cast<double>(placement.height), 1.03 * static_cast<double>(placement.live_peak));
}

// Ops of 1 ns: a makes A (100) which c needs; b makes B (50) of A, c makes C (30) of A and B.
TEST(Placement, WhatEndsLastLiesLowest) {
  HandGraph step;
  const TensorId a = step.Make("a", {}, 100, {.time = 1});
  const TensorId b = step.Make("b", {a}, 50, {.time = 1});
  const TensorId c = step.Make("c", {a, b}, 30, {.time = 1});
  step.Make("d", {a, c}, 5, {.time = 1});
  const sim::Workload workload = step.Workload();
  Placement placement = PlaceInLane(workload, PlainSchedule(workload), 1000);
  ASSERT_TRUE(CheckPlacement(workload, placement));
  // All of A, B and C live at op c: 180 bytes, and no placement is lower.
  EXPECT_EQ(placement.live_peak, 180);
  EXPECT_EQ(placement.height, 180);
  EXPECT_EQ(placement.heights[0_step], 100);
  // The checker sees two at one address.
  placement.schedule.stays[1_stay].address = placement.schedule.stays[0_stay].address;
  EXPECT_FALSE(CheckPlacement(workload, placement));
}

}  // namespace
}  // namespace ebbtide::share
