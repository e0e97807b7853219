// The machine that planners drive keeps the simulator's clocks, and writes down what the simulator then runs.
#include "sim/machine.h"

#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/support/hand_graph.h"
#include "tests/support/id_literals.h"

namespace ebbtide::sim {
namespace {

constexpr Link kLink{.to_device = 1e9, .to_host = 1e9, .latency = 0};  // a copy of n bytes takes n + 1 ns

// A (100), B (50) of A, C (30) of B, D (5) of A and C; 10, 20, 40 and 10 ns.
HandGraph FourOps() {
  HandGraph step;
  const TensorId a = step.Make("a", {}, 100, {.time = 10});
  const TensorId b = step.Make("b", {a}, 50, {.time = 20});
  const TensorId c = step.Make("c", {b}, 30, {.time = 40});
  step.Make("d", {a, c}, 5, {.phase = Phase::kBackward, .time = 10});
  return step;
}

TEST(Machine, SwapsAsTheSimulatorDoes) {
  const Workload workload = FourOps().Workload();
  Machine machine(workload, kLink, /*record=*/true);
  machine.Run(0_op, false);
  machine.Run(1_op, false);
  machine.BeginCopyOut(0_storage);  // at 30, done at 131
  EXPECT_TRUE(machine.OnHost(0_storage));
  EXPECT_EQ(machine.HostReady(0_storage), 131);
  machine.Run(2_op, false);
  EXPECT_EQ(machine.used(), 100 + 50 + 30);
  machine.Drop(1_storage, End::kFree);
  machine.FinishCopyOut(0_storage);
  EXPECT_EQ(machine.now(), 131);
  EXPECT_EQ(machine.used(), 30);
  EXPECT_EQ(machine.host_used(), 100);
  machine.BeginCopyIn(0_storage, 3_op);
  EXPECT_FALSE(machine.Settled(0_storage));
  EXPECT_EQ(machine.used(), 130);
  machine.Run(3_op, false);  // from 232
  EXPECT_TRUE(machine.Settled(0_storage));
  EXPECT_EQ(machine.finish(), 242);
  EXPECT_EQ(machine.host_peak(), 100);
  const Schedule schedule = machine.TakeSchedule();
  const Outcome outcome = Simulate(workload, schedule, kLink);
  EXPECT_EQ(outcome.time, 242);
  EXPECT_EQ(outcome.peak, 180);
  ASSERT_EQ(schedule.stays.size(), 5u);
  const Stay first{.storage = 0_storage,
                   .from = 0_step,
                   .to = 3_step,
                   .begin = Begin::kCompute,
                   .end = End::kCopyOut,
                   .leave = 2_step};
  EXPECT_EQ(schedule.stays[0_stay], first);
}

TEST(Machine, ACopyThatWasNotNeededIsNotInTheSchedule) {
  const Workload workload = FourOps().Workload();
  Machine machine(workload, kLink, /*record=*/true);
  machine.Run(0_op, false);
  machine.BeginCopyOut(0_storage);  // 10 to 111: after the last op has ended at 80
  for (const OpId op : {1_op, 2_op, 3_op}) machine.Run(op, false);
  EXPECT_EQ(machine.finish(), 111);
  const Outcome outcome = Simulate(workload, machine.TakeSchedule(), kLink);
  EXPECT_EQ(outcome.time, 80);
  EXPECT_EQ(outcome.copied_out, 0);
}

TEST(Machine, MakesAgain) {
  const Workload workload = FourOps().Workload();
  Machine machine(workload, kLink, /*record=*/true);
  for (const OpId op : {0_op, 1_op}) machine.Run(op, false);
  machine.Drop(0_storage, End::kDrop);
  machine.Run(2_op, false);
  EXPECT_EQ(machine.RoomFor(0_op, true), 100);
  machine.Run(0_op, true);
  EXPECT_EQ(machine.RoomFor(0_op, true), 100);  // a second copy
  EXPECT_EQ(machine.RoomFor(3_op, false), 5);
  machine.Run(3_op, false);
  EXPECT_EQ(machine.finish(), 10 + 20 + 40 + 10 + 10);
  const Schedule schedule = machine.TakeSchedule();
  const Outcome outcome = Simulate(workload, schedule, kLink);
  EXPECT_EQ(outcome.time, 90);
  EXPECT_EQ(outcome.recompute, 10);
  EXPECT_EQ(outcome.peak, 50 + 30 + 100 + 5);  // B is still there
}

TEST(Machine, AChangeSpoilsTheHostsCopy) {
  HandGraph step;
  const TensorId a = step.Make("a", {}, 100, {.time = 10});
  const TensorId b = step.Change("relu_", {a}, {.time = 10});
  step.Make("read", {b}, 1, {.time = 10});
  const Workload workload = step.Workload();
  Machine machine(workload, kLink, /*record=*/true);
  machine.Run(0_op, false);
  machine.BeginCopyOut(0_storage);
  machine.Run(1_op, false);
  EXPECT_FALSE(machine.OnHost(0_storage));
  EXPECT_EQ(machine.host_used(), 0);
  machine.BeginCopyOut(0_storage);
  EXPECT_EQ(machine.host_used(), 100);
}

TEST(Machine, WhatIsThereBeforeTheStepStays) {
  HandGraph step;
  step.Present(7);
  step.Make("a", {}, 1, {.time = 1});
  const Workload workload = step.Workload();
  Machine machine(workload, kLink, /*record=*/true);
  EXPECT_TRUE(machine.OnDevice(0_storage));
  EXPECT_EQ(machine.used(), 7);
  machine.Run(0_op, false);
  const Schedule schedule = machine.TakeSchedule();
  const Stay stay{.storage = 0_storage, .from = 0_step, .to = 1_step, .begin = Begin::kPresent, .end = End::kStays};
  EXPECT_EQ(schedule.stays[0_stay], stay);
  EXPECT_EQ(schedule.stays[1_stay].end, End::kFree);
}

}  // namespace
}  // namespace ebbtide::sim
