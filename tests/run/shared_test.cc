// The engine in a part of a pool that is not its own alone: at either end of a lane that moves, with what others hold
// refused, and with random numbers of its own.
#include <gtest/gtest.h>

#include "run/device/cpu_device.h"
#include "run/device/pool_holdings.h"
#include "run/engine/engine.h"
#include "run/engine/own_random.h"
#include "tests/support/fake_runner.h"
#include "tests/support/shared_cases.h"

namespace ebbtide::run {
namespace {

// Gives each iteration another place, and each group what it takes, less `short_by`.
class FixedTurns final : public Turns {
 public:
  explicit FixedTurns(const SharedCase& shared, Bytes from) : heights_(HeightsOf(shared)), from_(from) {
    for (const GroupHeights& each : heights_) need_ = std::max(need_, each.peak);
  }
  tl::expected<Turn, Failure> Begin() override {
    ++iterations;
    groups = 1;
    inside = true;
    return Turn{from_ + iterations * 512, need_ + iterations * 1024, iterations % 2 == 1, heights_[0].peak - short_by};
  }
  tl::expected<Bytes, Failure> Next(std::size_t group, bool must) override {
    EXPECT_EQ(group, static_cast<std::size_t>(groups++));
    if (group == refuse && !must) return tl::unexpected<Failure>(Failure{Failure::Kind::kInterrupted, "aborted"});
    return heights_[group].peak - short_by;
  }
  void Left() override { left = true; }
  void End() override { inside = false; }

  std::size_t all_groups() const { return heights_.size(); }
  Bytes need() const { return need_; }
  int iterations = 0;
  std::size_t groups = 0;
  bool inside = false, left = false;
  Bytes short_by = 0;
  std::optional<std::size_t> refuse;  // a group that may not begin

 private:
  const std::vector<GroupHeights> heights_;
  const Bytes from_;
  Bytes need_ = 0;
};

// An engine on a part of a larger pool, beside a plain one.
class Guest {
 public:
  explicit Guest(const SharedCase& shared)
      : graph_(shared.task->graph), runner_(graph_), plain_runner_(graph_), plain_(graph_), turns_(shared, 8192) {
    const Bytes state = 8192 + turns_.need() + 16 * 1024;
    device_ = *MakeCpuDevice({.capacity = state + shared.state});
    std::fill_n(device_->At(0), static_cast<std::size_t>(device_->capacity()), std::byte{0xab});
    engine_ = *Engine::Make(graph_, *shared.plan, device_, runner_);
    const Status placed = engine_->PlaceIn({.state = state, .state_bytes = shared.state, .groups = shared.groups});
    EXPECT_TRUE(placed) << placed.error().message;
    for (const StorageId s : Ids<StorageId>(graph_.storages.size())) {
      if (engine_->home()[s] < state) continue;
      runner_.Bind(s, device_->At(engine_->home()[s]));
      std::ranges::copy(plain_.of(s), device_->At(engine_->home()[s]));
    }
  }

  tl::expected<StepReport, Failure> Step(double scalar) {
    StepCall call{.scalars = {scalar}, .turns = &turns_};
    for (const StorageId s : Ids<StorageId>(graph_.storages.size())) {
      if (graph_.storage(s).kind == StorageKind::kInput)
        call.inputs.push_back({s, 0, plain_.of(s).data(), graph_.storage(s).bytes});
    }
    return engine_->Step(call);
  }
  void FollowStep(double scalar) {
    plain_.Step(plain_runner_, std::vector<double>{scalar});
    ExpectSameState();
  }
  void ExpectSameState() {
    for (const StorageId s : Ids<StorageId>(graph_.storages.size())) {
      const Bytes home = engine_->home()[s];
      if (home < 0 || graph_.storage(s).kind == StorageKind::kInput) continue;
      const std::byte* const at = device_->At(home);
      EXPECT_TRUE(std::ranges::equal(plain_.of(s), std::span(at, at + graph_.storage(s).bytes))) << "state " << s.value;
    }
  }
  FixedTurns& turns() { return turns_; }
  Device& device() { return *device_; }
  FakeRunner& runner() { return runner_; }
  Engine& engine() { return *engine_; }

 private:
  const TrainingGraph& graph_;
  FakeRunner runner_, plain_runner_;
  PlainMemory plain_;
  FixedTurns turns_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Engine> engine_;
};

TEST(SharedEngine, GivesTheSameAtEitherEndOfALaneThatMoves) {
  int steps = 0;
  for (int seed = 0; seed < plan::Cases(150); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const SharedCase shared = RandomSharedCase(seed, 5);
    if (!shared.plan) continue;
    Guest guest(shared);
    for (int step = 1; step <= 4; ++step) {
      const auto report = guest.Step(step);
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_LE(report->peak, shared.plan->peak);
      EXPECT_EQ(guest.turns().groups, guest.turns().all_groups());
      EXPECT_TRUE(guest.turns().left);
      EXPECT_FALSE(guest.turns().inside);
      guest.FollowStep(step);
      EXPECT_EQ(guest.device().holdings()->held(), 0);
      ++steps;
      if (testing::Test::HasFailure()) return;
    }
    // Nothing below the lane was touched.
    for (Bytes at = 0; at < 8192; ++at) ASSERT_EQ(*guest.device().At(at), std::byte{0xab});
  }
  EXPECT_GT(steps, 100);
}

TEST(SharedEngine, AStepThatComesToNothingHoldsNothing) {
  int refused = 0;
  for (int seed = 0; seed < plan::Cases(60); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const SharedCase shared = RandomSharedCase(seed, 4);
    if (!shared.plan) continue;
    Guest guest(shared);
    ASSERT_TRUE(guest.Step(1));
    guest.FollowStep(1);
    for (std::size_t group = 1; group < shared.groups.size(); ++group) {
      guest.turns().refuse = group;
      if (guest.Step(2)) {
        guest.FollowStep(2);  // the update had begun
      } else {
        ++refused;
        guest.ExpectSameState();
      }
      EXPECT_EQ(guest.device().holdings()->held(), 0);
      EXPECT_FALSE(guest.turns().inside);
    }
    guest.turns().refuse.reset();
    for (const OpId op : {OpId(0), OpId(shared.task->graph.ops.size() / 2)}) {
      const auto& ops = shared.task->graph.ops;
      if (std::any_of(ops.begin(), ops.begin() + op.value + 1, [](const Op& o) { return o.phase == Phase::kUpdate; }))
        continue;
      guest.runner().refused = op;
      EXPECT_FALSE(guest.Step(2));
      guest.runner().refused = OpId();
      EXPECT_EQ(guest.device().holdings()->held(), 0);
      guest.ExpectSameState();
    }
    ASSERT_TRUE(guest.Step(3));
    guest.FollowStep(3);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(refused, 30);
}

// A scheduler that gives too little, or the same bytes to two, is found out, and the step undone.
TEST(SharedEngine, RefusesWhatItWasNotGiven) {
  const SharedCase shared = RandomSharedCase(3, 4);
  ASSERT_TRUE(shared.plan);
  Guest guest(shared);
  ASSERT_TRUE(guest.Step(1));
  guest.FollowStep(1);
  guest.turns().short_by = 1;
  const auto report = guest.Step(2);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("and was given"), std::string::npos) << report.error().message;
  guest.turns().short_by = 0;
  guest.ExpectSameState();
  const std::shared_ptr<Device> other = *guest.device().Beside();
  ASSERT_TRUE(other->Hold(0, 8192 + guest.turns().need() + 8 * 1024));
  const auto taken = guest.Step(2);
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().message.find("are held by another step"), std::string::npos) << taken.error().message;
  other->LetGo(0);
  ASSERT_TRUE(guest.Step(2));
  guest.FollowStep(2);
}

TEST(SharedEngine, RefusesABerthThatThePlanDoesNotFit) {
  const SharedCase shared = RandomSharedCase(3, 4);
  ASSERT_TRUE(shared.plan);
  Guest guest(shared);
  const Bytes need = shared.plan->peak - shared.state;
  EXPECT_FALSE(guest.engine().PlaceIn({.state = 0, .state_bytes = shared.state, .lane = 0, .lane_bytes = need - 1}));
  EXPECT_FALSE(guest.engine().PlaceIn({.state = 0, .state_bytes = shared.state - 1, .lane = 0, .lane_bytes = need}));
  ASSERT_TRUE(guest.Step(1));  // it is where it was
  guest.FollowStep(1);
}

TEST(PoolHoldings, CountsAndRefuses) {
  PoolHoldings holdings;
  const int a = holdings.Join(), b = holdings.Join();
  ASSERT_TRUE(holdings.Hold(a, 100, 50));
  ASSERT_TRUE(holdings.Hold(b, 150, 50));
  ASSERT_TRUE(holdings.Hold(b, 120, 0));
  EXPECT_FALSE(holdings.Hold(b, 149, 1));
  EXPECT_FALSE(holdings.Hold(a, 50, 51));
  EXPECT_FALSE(holdings.Hold(a, 0, 1000));
  EXPECT_EQ(holdings.held(), 100);
  holdings.LetGo(b, 100);  // not his
  EXPECT_EQ(holdings.held_by(a), 50);
  holdings.LetGo(a, 100);
  EXPECT_TRUE(holdings.Hold(b, 0, 150));
  EXPECT_EQ(holdings.peak(), 200);
  holdings.LetGoAll(b);
  EXPECT_EQ(holdings.held(), 0);
  EXPECT_EQ(holdings.peak(), 200);
}

// Two runners that draw from one generator, in turn: each draws what it would draw alone.
TEST(OwnRandom, DrawsAsIfAlone) {
  SharedCase shared;
  OpId drawing;
  for (int seed = 0; !drawing.valid(); ++seed) {
    shared = RandomSharedCase(seed, 1);
    for (const OpId op : Ids<OpId>(shared.task->graph.ops.size())) {
      if (shared.plan && shared.task->graph.op(op).random) drawing = op;
    }
  }
  FakeRunner generator(shared.task->graph);
  generator.refused = OpId();
  std::uint64_t state = 99;
  generator.LoadRandom(reinterpret_cast<const std::byte*>(&state));
  OwnRandom a(generator, shared.task->graph), b(generator, shared.task->graph);
  const auto state_of = [](OpRunner& runner) {
    std::uint64_t out = 0;
    runner.SaveRandom(reinterpret_cast<std::byte*>(&out));
    return out;
  };
  PlainMemory memory(shared.task->graph);
  for (const StorageId s : Ids<StorageId>(shared.task->graph.storages.size())) a.Bind(s, memory.of(s).data());
  class Heap final : public OpMemory {
   public:
    void* Allocate(std::size_t bytes) override { return pieces_.emplace_back(new std::byte[bytes]).get(); }
    bool Release(void*) override { return true; }

   private:
    std::vector<std::unique_ptr<std::byte[]>> pieces_;
  } heap;
  std::vector<Made> made;
  const std::vector<double> scalars{1};
  std::uint64_t expected = 99;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(a.Run(drawing, scalars, heap, made));
    expected = NextRandom(expected);
    EXPECT_EQ(state_of(a), expected);
    EXPECT_EQ(state_of(generator), 99u);
  }
  EXPECT_EQ(state_of(b), 99u);
  ASSERT_TRUE(b.Run(drawing, scalars, heap, made));
  EXPECT_EQ(state_of(b), NextRandom(99));
}

}  // namespace
}  // namespace ebbtide::run
