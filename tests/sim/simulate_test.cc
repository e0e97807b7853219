// The simulator's rules on schedules made by hand, with their arithmetic. The link moves a byte in a nanosecond, and
// each copy takes one more to begin: 100 bytes are 101 ns.
#include "sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/collective.h"
#include "tests/support/hand_graph.h"
#include "tests/support/id_literals.h"

namespace ebbtide::sim {
namespace {

using testing::ElementsAre;

constexpr Link kLink{.to_device = 1e9, .to_host = 1e9, .latency = 0};

// op 0 (10 ns) makes A (100), op 1 (20 ns) B (50) of A, op 2 (40 ns) C (30) of B with a workspace of 7, op 3 (10 ns) D
// (5) of A and C.
struct FourOps {
  FourOps() {
    const TensorId a = step.Make("a", {}, 100, {.time = 10});
    const TensorId b = step.Make("b", {a}, 50, {.time = 20});
    const TensorId c = step.Make("c", {b}, 30, {.time = 40, .workspace = 7});
    step.Make("d", {a, c}, 5, {.phase = Phase::kBackward, .time = 10});
  }
  HandGraph step;
};
constexpr StorageId kA = 0_storage, kB = 1_storage, kC = 2_storage, kD = 3_storage;

TEST(Simulate, NothingMoves) {
  const Workload workload = FourOps().step.Workload();
  const Schedule schedule{.steps = {0_op, 1_op, 2_op, 3_op},
                          .stays = {{.storage = kA, .from = 0_step, .to = 4_step},
                                    {.storage = kB, .from = 1_step, .to = 3_step},
                                    {.storage = kC, .from = 2_step, .to = 4_step},
                                    {.storage = kD, .from = 3_step, .to = 4_step}},
                          .workspace_address = {}};
  const Outcome outcome = Simulate(workload, schedule, kLink);
  EXPECT_EQ(outcome.time, 10 + 20 + 40 + 10);
  EXPECT_THAT(StepBytes(workload, schedule), ElementsAre(100, 100 + 50, 100 + 50 + 30 + 7, 100 + 30 + 5));
  EXPECT_EQ(outcome.peak, 187);
  EXPECT_EQ(outcome.wait_for_memory + outcome.wait_for_data + outcome.drain + outcome.recompute, 0);
  EXPECT_EQ(outcome.host_peak, 0);
}

TEST(Simulate, ComputeWaitsForMemoryAndForData) {
  const Workload workload = FourOps().step.Workload();
  const Schedule schedule{
      .steps = {0_op, 1_op, 2_op, 3_op},
      .stays = {{.storage = kA, .from = 0_step, .to = 3_step, .end = End::kCopyOut, .leave = 2_step},
                {.storage = kB, .from = 1_step, .to = 3_step},
                {.storage = kC, .from = 2_step, .to = 4_step},
                {.storage = kA, .from = 3_step, .to = 4_step, .begin = Begin::kCopyIn},
                {.storage = kD, .from = 3_step, .to = 4_step}},
      .workspace_address = {}};
  const Outcome outcome = Simulate(workload, schedule, kLink, {.keep_timeline = true});
  // Op 1 ends at 30: the copy runs from 30 to 131. Op 2 ends at 70; A's memory is free at 131, when its copy back is
  // queued, which arrives at 232. Op 3 runs from 232 to 242.
  EXPECT_EQ(outcome.wait_for_memory, 131 - 70);
  EXPECT_EQ(outcome.wait_for_data, 232 - 131);
  EXPECT_EQ(outcome.time, 242);
  EXPECT_EQ(outcome.copied_out, 100);
  EXPECT_EQ(outcome.copied_in, 100);
  EXPECT_EQ(outcome.host_peak, 100);
  ASSERT_EQ(outcome.timeline.size(), 6u);  // four ops and two copies
  EXPECT_EQ(outcome.timeline[2].stream, Stream::kToHost);
  EXPECT_EQ(outcome.timeline[2].begin, 30);
  EXPECT_EQ(outcome.timeline[2].end, 131);
  EXPECT_EQ(outcome.timeline[4].stream, Stream::kToDevice);
  EXPECT_EQ(outcome.timeline[4].begin, 131);
}

TEST(Simulate, LatencyAndTwoBandwidths) {
  const Link link{.to_device = 2e9, .to_host = 0.5e9, .latency = 3};
  EXPECT_EQ(link.TimeOut(100), 3 + 200 + 1);
  EXPECT_EQ(link.TimeIn(100), 3 + 50 + 1);
  EXPECT_EQ(link.TimeIn(0), 3);
}

// Three storages X (10), Y (20), Z (40), made by ops of 1 ns; a pause of 1000 ns; then Z, X and Y are read.
struct ThreeStorages {
  ThreeStorages() {
    const TensorId x = step.Make("x", {}, 10, {.time = 1});
    const TensorId y = step.Make("y", {}, 20, {.time = 1});
    const TensorId z = step.Make("z", {}, 40, {.time = 1});
    step.Make("pause", {}, 1, {.time = 1000});
    step.Make("read", {z}, 1, {.phase = Phase::kBackward, .time = 1});
    step.Make("read", {x}, 1, {.phase = Phase::kBackward, .time = 1});
    step.Make("read", {y}, 1, {.phase = Phase::kBackward, .time = 1});
  }
  // All leave at boundary 3 in the order of `turns`, are gone at 4 and come back at 4.
  Schedule Swapped(std::uint32_t turn_x, std::uint32_t turn_y, std::uint32_t turn_z) const {
    const auto out = [](std::size_t s, std::uint32_t turn) {
      return Stay{.storage = StorageId(s),
                  .from = StepId(s),
                  .to = 4_step,
                  .end = End::kCopyOut,
                  .leave = 3_step,
                  .turn = turn};
    };
    const auto in = [](StorageId s, StepId to) {
      return Stay{.storage = s, .from = 4_step, .to = to, .begin = Begin::kCopyIn};
    };
    return {.steps = {0_op, 1_op, 2_op, 3_op, 4_op, 5_op, 6_op},
            .stays = {out(0, turn_x),
                      out(1, turn_y),
                      out(2, turn_z),
                      {.storage = 3_storage, .from = 3_step, .to = 4_step},
                      in(0_storage, 6_step),
                      in(1_storage, 7_step),
                      in(2_storage, 5_step),
                      {.storage = 4_storage, .from = 4_step, .to = 5_step},
                      {.storage = 5_storage, .from = 5_step, .to = 6_step},
                      {.storage = 6_storage, .from = 6_step, .to = 7_step}},
            .workspace_address = {}};
  }
  HandGraph step;
};

TEST(Simulate, CopiesAtOneBoundaryLeaveInTurnAndComeAsTheyAreNeeded) {
  const ThreeStorages three;
  const Workload workload = three.step.Workload();
  const Outcome outcome = Simulate(workload, three.Swapped(2, 0, 1), kLink, {.keep_timeline = true});
  std::vector<StorageId> left, came;
  std::vector<Nanos> left_at, came_at;
  for (const Span& span : outcome.timeline) {
    if (span.stream == Stream::kToHost) left.push_back(span.storage), left_at.push_back(span.end);
    if (span.stream == Stream::kToDevice) came.push_back(span.storage), came_at.push_back(span.end);
  }
  EXPECT_THAT(left, ElementsAre(1_storage, 2_storage, 0_storage));
  EXPECT_THAT(left_at, ElementsAre(3 + 21, 3 + 21 + 41, 3 + 21 + 41 + 11));  // they are queued at 3
  EXPECT_THAT(came, ElementsAre(2_storage, 0_storage, 1_storage));           // read by ops 4, 5 and 6
  EXPECT_THAT(came_at, ElementsAre(1003 + 41, 1003 + 41 + 11, 1003 + 41 + 11 + 21));
  // Each reader waits for its own: Z is there at 1044, read to 1045; X at 1055, read to 1056; Y at 1076, read to 1077.
  EXPECT_EQ(outcome.time, 1077);
  EXPECT_EQ(outcome.wait_for_data, 1077 - 1003 - 3);
  EXPECT_EQ(outcome.wait_for_memory, 0);
  EXPECT_EQ(outcome.host_peak, 10 + 20 + 40);
}

TEST(Simulate, CopiesToTheHostAreQueuedBeforeTheBoundaryWaits) {
  // X leaves at boundary 1 and is awaited at 2; Y leaves at 2: its copy follows X's at once, whatever compute does.
  const ThreeStorages three;
  const Workload workload = three.step.Workload();
  Schedule schedule = three.Swapped(0, 0, 0);
  schedule.stays[0_stay].leave = 1_step, schedule.stays[0_stay].to = 2_step;
  schedule.stays[1_stay].leave = 2_step;
  const Outcome outcome = Simulate(workload, schedule, kLink, {.keep_timeline = true});
  // X: 1 to 12, awaited when op 1 ends at 2: 10 ns. Y: 12 to 33. Op 2 ends at 13: Z is queued then: 33 to 74.
  EXPECT_EQ(outcome.wait_for_memory, 10);
  std::vector<Nanos> begins;
  for (const Span& span : outcome.timeline) {
    if (span.stream == Stream::kToHost) begins.push_back(span.begin);
  }
  EXPECT_THAT(begins, ElementsAre(1, 12, 33));
}

TEST(Simulate, HostMemoryIsHeldFromTheCopyToTheLastCopyBack) {
  // s (100) is made, leaves and comes back twice with a change in between; t (60) leaves once, while s is there.
  HandGraph step;
  const TensorId s = step.Make("s", {}, 100, {.time = 1000});                                     // 0
  const TensorId t = step.Make("t", {}, 60, {.time = 1000});                                      // 1
  const TensorId changed = step.Change("relu_", {s}, {.phase = Phase::kBackward, .time = 1000});  // 2
  step.Make("pause", {}, 1, {.phase = Phase::kBackward, .time = 1000});                           // 3
  step.Make("read", {t}, 1, {.phase = Phase::kBackward, .time = 1000});                           // 4
  step.Make("read", {changed}, 1, {.phase = Phase::kBackward, .time = 1000});                     // 5
  const Workload workload = step.Workload();
  Schedule schedule{
      .steps = {0_op, 1_op, 2_op, 3_op, 4_op, 5_op},
      .stays = {{.storage = 0_storage, .from = 0_step, .to = 2_step, .end = End::kCopyOut, .leave = 1_step},
                {.storage = 1_storage, .from = 1_step, .to = 4_step, .end = End::kCopyOut, .leave = 3_step},
                {.storage = 0_storage, .from = 2_step, .to = 6_step, .begin = Begin::kCopyIn},
                {.storage = 2_storage, .from = 3_step, .to = 4_step},
                {.storage = 1_storage, .from = 4_step, .to = 5_step, .begin = Begin::kCopyIn},
                {.storage = 3_storage, .from = 4_step, .to = 5_step},
                {.storage = 4_storage, .from = 5_step, .to = 6_step}},
      .workspace_address = {}};
  // s is on the host from 1000 until it has arrived at 2101; t from 3101 on.
  EXPECT_EQ(Simulate(workload, schedule, kLink).host_peak, 100);
  // A second copy of s, after its change, is there beside t's.
  schedule.stays[2_stay].to = 5_step, schedule.stays[2_stay].end = End::kCopyOut, schedule.stays[2_stay].leave = 3_step;
  schedule.stays.insert(schedule.stays.begin() + 6,
                        Stay{.storage = 0_storage, .from = 5_step, .to = 6_step, .begin = Begin::kCopyIn});
  EXPECT_EQ(Simulate(workload, schedule, kLink).host_peak, 160);
}

TEST(Simulate, RecomputationTakesItsTimeAndASecondCopyTakesItsBytes) {
  // B is dropped after op 2 and made again by op 1 before op 3, which reads it in this step.
  HandGraph step;
  const TensorId a = step.Make("a", {}, 100, {.time = 10});
  const auto made = step.Run("b", {a}, {50, 8}, {.time = 20, .workspace = 3});
  step.Make("c", {made[0]}, 30, {.time = 40});
  step.Make("d", {made[0], made[1]}, 5, {.phase = Phase::kBackward, .time = 10});
  const Workload workload = step.Workload();
  const Schedule schedule{.steps = {0_op, 1_op, 2_op, 1_op, 3_op},
                          .stays = {{.storage = 0_storage, .from = 0_step, .to = 4_step},
                                    {.storage = 1_storage, .from = 1_step, .to = 3_step, .end = End::kDrop},
                                    {.storage = 2_storage, .from = 1_step, .to = 5_step},
                                    {.storage = 3_storage, .from = 2_step, .to = 3_step},
                                    {.storage = 1_storage, .from = 3_step, .to = 5_step, .begin = Begin::kRecompute},
                                    {.storage = 4_storage, .from = 4_step, .to = 5_step}},
                          .workspace_address = {}};
  const Outcome outcome = Simulate(workload, schedule, kLink);
  EXPECT_EQ(outcome.time, 10 + 20 + 40 + 20 + 10);
  EXPECT_EQ(outcome.recompute, 20);
  // Op 1 makes its second output (8) once more beside the one that is there.
  EXPECT_THAT(StepWorkspace(workload, schedule), ElementsAre(0, 3, 0, 3 + 8, 0));
  EXPECT_THAT(StepBytes(workload, schedule),
              ElementsAre(100, 100 + 50 + 8 + 3, 100 + 50 + 8 + 30, 100 + 8 + 50 + 3 + 8, 8 + 50 + 5));
  EXPECT_EQ(outcome.peak, 188);
}

TEST(Simulate, TheIterationEndsWithItsLastCopy) {
  // A copy that no step waits for: no valid plan has one, but the clock goes on.
  const Workload workload = FourOps().step.Workload();
  const Schedule schedule{
      .steps = {0_op, 1_op, 2_op, 3_op},
      .stays = {{.storage = kA, .from = 0_step, .to = 4_step},
                {.storage = kB, .from = 1_step, .to = 3_step, .end = End::kCopyOut, .leave = 3_step},
                {.storage = kC, .from = 2_step, .to = 4_step},
                {.storage = kB, .from = 3_step, .to = 4_step, .begin = Begin::kCopyIn},
                {.storage = kD, .from = 3_step, .to = 4_step}},
      .workspace_address = {}};
  const Outcome outcome = Simulate(workload, schedule, kLink);
  // Op 2 ends at 70, B has left at 121, op 3 runs to 131, B is back at 172.
  EXPECT_EQ(outcome.time, 172);
  EXPECT_EQ(outcome.drain, 172 - 131);
}

// op 0 (10 ns) makes A (100); op 1 gathers B (50) of A in 30 ns, beside computation; op 2 (20 ns) makes C (30) of A;
// op 3 (10 ns) makes D (5) of B and C; op 4 reduces D in place in 100 ns, beside.
struct WithExchanges {
  WithExchanges() {
    const TensorId a = step.Make("a", {}, 100, {.time = 10});
    const TensorId b = step.Make("gather", {a}, 50, {.time = 30});
    const TensorId c = step.Make("c", {a}, 30, {.time = 20});
    const TensorId d = step.Make("d", {b, c}, 5, {.phase = Phase::kBackward, .time = 10});
    step.Change("reduce", {d}, {.phase = Phase::kBackward, .time = 100});
    for (const std::size_t i : {1u, 4u}) SetStream(step.graph.ops[i], ebbtide::Stream::kGather);
  }
  static Schedule Plain(StepId end_of_a) {
    return {.steps = {0_op, 1_op, 2_op, 3_op, 4_op},
            .stays = {{.storage = kA, .from = 0_step, .to = end_of_a},
                      {.storage = kB, .from = 1_step, .to = 4_step},
                      {.storage = kC, .from = 2_step, .to = 4_step},
                      {.storage = kD, .from = 3_step, .to = 5_step}},
            .workspace_address = {}};
  }
  HandGraph step;
};

TEST(Simulate, CollectivesRunBesideComputation) {
  const Workload workload = WithExchanges().step.Workload();
  EXPECT_EQ(PlainTime(workload), 150);
  // A goes when op 3 has waited for the gather, which reads it; D when the iteration ends.
  EXPECT_EQ(workload.last_reference[kA], 3_op);
  EXPECT_EQ(workload.last_reference[kD], 4_op);
  const Outcome outcome = Simulate(workload, WithExchanges::Plain(4_step), kLink, {.keep_timeline = true});
  // The gather from 10 to 40, op 2 from 10 to 30; op 3 waits for B from 30 to 40 and ends at 50; the reduction from
  // there to 150, for which the iteration's end waits, as D goes then.
  EXPECT_EQ(outcome.time, 150);
  EXPECT_EQ(outcome.exchange, 130);
  EXPECT_EQ(outcome.wait_for_ranks, 10 + 100);
  EXPECT_EQ(outcome.wait_for_data + outcome.wait_for_memory + outcome.drain, 0);
  EXPECT_EQ(outcome.timeline[1].stream, Stream::kExchange);
  EXPECT_EQ(outcome.timeline[2].begin, 10);
}

TEST(Simulate, MemoryThatACollectiveReadsGoesWhenItIsDone) {
  // A ends behind op 2, at 30: the gather reads it until 40.
  const Outcome outcome =
      Simulate(WithExchanges().step.Workload(), WithExchanges::Plain(3_step), kLink, {.keep_timeline = true});
  EXPECT_EQ(outcome.released[3_step], 40);
  EXPECT_EQ(outcome.time, 150);
}

TEST(Simulate, CollectivesAndCopiesTakeTurnsOnOneLink) {
  WithExchanges with;
  const Workload workload =
      MakeWorkload(with.step.graph, with.step.Times(), {.alignment = 1, .exchanges_use_host_link = true});
  Schedule schedule = WithExchanges::Plain(4_step);
  schedule.stays[0_stay].end = End::kCopyOut;
  schedule.stays[0_stay].leave = 1_step;
  const Outcome outcome = Simulate(workload, schedule, kLink);
  // A is copied from 10 to 111, the gather follows to 141, op 3 runs to 151, the reduction to 251.
  EXPECT_EQ(outcome.time, 251);
}

TEST(Simulate, NoOps) {
  const Workload workload = HandGraph().Workload();
  const Outcome outcome = Simulate(workload, {}, kLink);
  EXPECT_EQ(outcome.time, 0);
  EXPECT_EQ(outcome.peak, 0);
}

}  // namespace
}  // namespace ebbtide::sim
