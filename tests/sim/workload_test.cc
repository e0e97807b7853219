// What the simulator takes from a graph: needs, births, sizes, the plain step, and which storages can be made again.
#include "sim/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/hand_graph.h"
#include "tests/support/id_literals.h"

namespace ebbtide::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Phase kBackward = Phase::kBackward, kUpdate = Phase::kUpdate;

// Their numbers.
template <class IdType>
std::vector<int> List(std::span<const IdType> ids) {
  std::vector<int> out;
  for (const IdType id : ids) out.push_back(id.value);
  return out;
}

TEST(Workload, SizesAreRoundedUp) {
  HandGraph step;
  step.Present(513);
  step.Make("a", {}, 1, {.workspace = 600});
  step.Make("b", {}, 0, {});
  const Workload workload = step.Workload(512);
  EXPECT_THAT(workload.bytes, ElementsAre(1024, 512, 0));
  EXPECT_THAT(workload.workspace, ElementsAre(1024, 0));
}

TEST(Workload, ThePlainStep) {
  // p (1000) is there throughout. a (100) dies with its last reference after op 3, not with its last use in op 2.
  HandGraph step;
  const TensorId p = step.Present(1000);
  const TensorId a = step.Make("a", {p}, 100, {.time = 5});
  const TensorId b = step.Make("b", {a}, 40, {.time = 7, .workspace = 9});
  const TensorId c = step.Make("c", {a, b}, 20, {.time = 11});
  step.Make("d", {c}, 10, {.time = 13});
  step.graph.storages[1].released_after = OpId(3);
  const Workload workload = step.Workload();
  EXPECT_EQ(PlainTime(workload), 5 + 7 + 11 + 13);
  // b (40) dies after op 2; c (20) and d (10) are made by ops 2 and 3.
  EXPECT_THAT(PlainProfile(workload), ElementsAre(1100, 1140 + 9, 1160, 1000 + 100 + 20 + 10));
  EXPECT_EQ(PlainPeak(workload), 1160);
}

TEST(Workload, AViewNeedsNothing) {
  HandGraph step;
  const TensorId a = step.Make("a", {}, 8, {});
  const TensorId view = step.View(a);
  step.Push("view", {a}, {view}, {});
  step.Make("b", {view}, 8, {});
  const Workload workload = step.Workload();
  EXPECT_THAT(List(workload.needs[1_op]), IsEmpty());
  EXPECT_THAT(List(workload.needs[2_op]), ElementsAre(0));
  EXPECT_THAT(List(workload.uses[0_storage]), ElementsAre(0, 2));
}

TEST(Workload, TwoTensorsOfAStorageAreOneNeed) {
  HandGraph step;
  const TensorId a = step.Make("a", {}, 8, {});
  const TensorId view = step.View(a);
  step.Push("view", {a}, {view}, {});
  step.Make("b", {a, view}, 8, {});
  EXPECT_THAT(List(step.Workload().needs[2_op]), ElementsAre(0));
}

TEST(Recipe, AnInPlaceOpIsItsSecondPart) {
  HandGraph step;
  const TensorId p = step.Present(4);
  const TensorId a = step.Make("convolution", {p}, 8, {});
  const TensorId b = step.Change("relu_", {a}, {});
  step.Make("read", {b}, 8, {.phase = kBackward});
  const Workload workload = step.Workload();
  EXPECT_THAT(List(workload.recipe[0_storage]), IsEmpty());  // a parameter
  EXPECT_THAT(List(workload.recipe[1_storage]), ElementsAre(0, 1));
  EXPECT_THAT(List(workload.changes[1_op]), ElementsAre(1));
  EXPECT_THAT(List(workload.needs[1_op]), ElementsAre(1));
}

TEST(Recipe, NotOfWhatWasReadBeforeAChange) {
  // c is made of a before relu_ changes a: making a again gives it as it is after relu_.
  HandGraph step;
  const TensorId a = step.Make("a", {}, 8, {});
  step.Make("c", {a}, 8, {});
  step.Change("relu_", {a}, {});
  const Workload workload = step.Workload();
  EXPECT_THAT(List(workload.recipe[0_storage]), ElementsAre(0, 2));
  EXPECT_THAT(List(workload.recipe[1_storage]), IsEmpty());
}

TEST(Recipe, NotByOpsThatGiveOtherBits) {
  HandGraph step;
  const TensorId a = step.Make("a", {}, 8, {.deterministic = false});
  step.Make("b", {a}, 8, {});
  const Workload workload = step.Workload();
  EXPECT_THAT(List(workload.recipe[0_storage]), IsEmpty());
  EXPECT_THAT(List(workload.recipe[1_storage]), ElementsAre(1));  // of a, which has to be kept or swapped
}

TEST(Recipe, StateThatAnOpChangesItselfIsGivenBackToIt) {
  HandGraph step;
  const TensorId x = step.Present(8, StorageKind::kInput);
  const TensorId mean = step.Present(4, StorageKind::kBuffer);
  const auto made = step.Run("native_batch_norm", {x, mean}, {8, 4}, {.mutated = {mean}});
  const TensorId other = step.Make("other", {x, mean}, 8, {.mutated = {mean}});
  step.Make("read", {made[0], made[1], other}, 8, {.phase = kBackward});
  const Workload workload = step.Workload();
  EXPECT_THAT(List(workload.recipe[2_storage]), ElementsAre(0));
  EXPECT_THAT(List(workload.recipe[3_storage]), ElementsAre(0));
  EXPECT_THAT(List(workload.recipe[4_storage]), ElementsAre(1));
}

TEST(Recipe, WhatReadsStateThatIsChangedLaterIsNotMadeAgain) {
  // Batch norm in evaluation mode reads statistics that another op moves later. Its name does not matter.
  HandGraph step;
  const TensorId x = step.Present(8, StorageKind::kInput);
  const TensorId mean = step.Present(4, StorageKind::kBuffer);
  const auto made = step.Run("native_batch_norm", {x, mean}, {8}, {});
  step.Change("add_", {mean}, {});
  const auto after = step.Run("native_batch_norm", {x, mean}, {8}, {});
  step.Make("read", {made[0], after[0]}, 8, {.phase = kBackward});
  const Workload workload = step.Workload();
  EXPECT_THAT(List(workload.recipe[2_storage]), IsEmpty());
  EXPECT_THAT(List(workload.recipe[3_storage]), ElementsAre(2));
}

TEST(Recipe, TheUpdateComesTooLateToMatter) {
  HandGraph step;
  const TensorId p = step.Present(4);
  const TensorId a = step.Make("a", {p}, 8, {});
  const TensorId gradient = step.Make("g", {a}, 4, {.phase = kBackward});
  step.Change("sub_", {p, gradient}, {.phase = kUpdate});
  const Workload workload = step.Workload();
  EXPECT_THAT(List(workload.recipe[1_storage]), ElementsAre(0));  // p changes only in the update
  EXPECT_THAT(List(workload.recipe[2_storage]), IsEmpty());       // the update reads it: by then p may have changed
}

TEST(Recipe, AnUpdateWithinBackwardIsSeen) {
  // p is updated before a is read for the last time: made again then, a would come of the new p.
  HandGraph step;
  const TensorId p = step.Present(4);
  const TensorId a = step.Make("a", {p}, 8, {});
  const TensorId gradient = step.Make("g", {}, 4, {.phase = kBackward});
  step.Change("sub_", {p, gradient}, {.phase = kUpdate});
  step.Make("read", {a}, 8, {.phase = kBackward});
  EXPECT_THAT(List(step.Workload().recipe[1_storage]), IsEmpty());
}

TEST(Recipe, NotOfWhatChangesBeforeTheUpdate) {
  HandGraph step;
  const TensorId p = step.Present(4);
  const TensorId a = step.Make("a", {p}, 8, {});
  step.Change("clamp_", {p}, {});
  step.Make("read", {a}, 8, {.phase = kBackward});
  EXPECT_THAT(List(step.Workload().recipe[1_storage]), IsEmpty());
}

TEST(Lists, TransposeSaysWhoHoldsEach) {
  Lists<OpId, StorageId> lists;
  lists.Add(std::vector{0_storage, 2_storage});
  lists.Add({});
  lists.Add(std::vector{2_storage});
  const Lists<StorageId, OpId> holders = Transpose(lists, 3);
  EXPECT_THAT(List(holders[0_storage]), ElementsAre(0));
  EXPECT_THAT(List(holders[1_storage]), IsEmpty());
  EXPECT_THAT(List(holders[2_storage]), ElementsAre(0, 2));
}

}  // namespace
}  // namespace ebbtide::sim
