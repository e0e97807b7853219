// The machine that planners drive keeps the simulator's clocks, and writes down what the simulator then runs.
#include "sim/machine.h"

#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/sim/hand_graph.h"

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
  machine.Run(0, false);
  machine.Run(1, false);
  machine.BeginCopyOut(0);  // at 30, done at 131
  EXPECT_TRUE(machine.OnHost(0));
  EXPECT_EQ(machine.HostReady(0), 131);
  machine.Run(2, false);
  EXPECT_EQ(machine.used(), 100 + 50 + 30);
  machine.Drop(1, End::kFree);
  machine.FinishCopyOut(0);
  EXPECT_EQ(machine.now(), 131);
  EXPECT_EQ(machine.used(), 30);
  EXPECT_EQ(machine.host_used(), 100);
  machine.BeginCopyIn(0, 3);
  EXPECT_FALSE(machine.Settled(0));
  EXPECT_EQ(machine.used(), 130);
  machine.Run(3, false);  // from 232
  EXPECT_TRUE(machine.Settled(0));
  EXPECT_EQ(machine.finish(), 242);
  EXPECT_EQ(machine.host_peak(), 100);
  const Schedule schedule = machine.TakeSchedule();
  const Outcome outcome = Simulate(workload, schedule, kLink);
  EXPECT_EQ(outcome.time, 242);
  EXPECT_EQ(outcome.peak, 180);
  ASSERT_EQ(schedule.stays.size(), 5u);
  const Stay first{.storage = 0, .from = 0, .to = 3, .begin = Begin::kCompute, .end = End::kCopyOut, .leave = 2};
  EXPECT_EQ(schedule.stays[0], first);
}

TEST(Machine, ACopyThatWasNotNeededIsNotInTheSchedule) {
  const Workload workload = FourOps().Workload();
  Machine machine(workload, kLink, /*record=*/true);
  machine.Run(0, false);
  machine.BeginCopyOut(0);  // 10 to 111: after the last op has ended at 80
  for (const Index op : {1, 2, 3}) machine.Run(op, false);
  EXPECT_EQ(machine.finish(), 111);
  const Outcome outcome = Simulate(workload, machine.TakeSchedule(), kLink);
  EXPECT_EQ(outcome.time, 80);
  EXPECT_EQ(outcome.copied_out, 0);
}

TEST(Machine, MakesAgain) {
  const Workload workload = FourOps().Workload();
  Machine machine(workload, kLink, /*record=*/true);
  for (const Index op : {0, 1}) machine.Run(op, false);
  machine.Drop(0, End::kDrop);
  machine.Run(2, false);
  EXPECT_EQ(machine.RoomFor(0, true), 100);
  machine.Run(0, true);
  EXPECT_EQ(machine.RoomFor(0, true), 100);  // a second copy
  EXPECT_EQ(machine.RoomFor(3, false), 5);
  machine.Run(3, false);
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
  machine.Run(0, false);
  machine.BeginCopyOut(0);
  machine.Run(1, false);
  EXPECT_FALSE(machine.OnHost(0));
  EXPECT_EQ(machine.host_used(), 0);
  machine.BeginCopyOut(0);
  EXPECT_EQ(machine.host_used(), 100);
}

TEST(Machine, WhatIsThereBeforeTheStepStays) {
  HandGraph step;
  step.Present(7);
  step.Make("a", {}, 1, {.time = 1});
  const Workload workload = step.Workload();
  Machine machine(workload, kLink, /*record=*/true);
  EXPECT_TRUE(machine.OnDevice(0));
  EXPECT_EQ(machine.used(), 7);
  machine.Run(0, false);
  const Schedule schedule = machine.TakeSchedule();
  const Stay stay{.storage = 0, .from = 0, .to = 1, .begin = Begin::kPresent, .end = End::kStays};
  EXPECT_EQ(schedule.stays[0], stay);
  EXPECT_EQ(schedule.stays[1].end, End::kFree);
}

}  // namespace
}  // namespace ebbtide::sim
