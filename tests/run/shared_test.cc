// The engine in a part of a pool that is not its own alone: at either end of a lane that moves, with what others hold
// refused, and with random numbers of its own.
#include <gtest/gtest.h>

#include "run/cpu_device.h"
#include "run/engine.h"
#include "run/ledger.h"
#include "run/own_random.h"
#include "tests/run/fake_runner.h"
#include "tests/run/shared_cases.h"

namespace ebbtide::run {
namespace {

// Gives each iteration another place, and each group what it takes, less `short_by`.
class FixedGate final : public Gate {
 public:
  explicit FixedGate(const SharedCase& shared, Bytes from) : heights_(HeightsOf(shared)), from_(from) {
    for (const GroupHeights& each : heights_) need_ = std::max(need_, each.peak);
  }
  tl::expected<Grant, Failure> Begin() override {
    ++iterations;
    groups = 1;
    inside = true;
    return Grant{from_ + iterations * 512, need_ + iterations * 1024, iterations % 2 == 1, heights_[0].peak - short_by};
  }
  tl::expected<Bytes, Failure> Next(Index group, bool must) override {
    EXPECT_EQ(group, static_cast<Index>(groups++));
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
  Index refuse = sim::kNone;

 private:
  const std::vector<GroupHeights> heights_;
  const Bytes from_;
  Bytes need_ = 0;
};

// An engine on a part of a larger pool, beside a plain one.
class Guest {
 public:
  explicit Guest(const SharedCase& shared)
      : graph_(shared.task->graph), runner_(graph_), plain_runner_(graph_), plain_(graph_), gate_(shared, 8192) {
    const Bytes state = 8192 + gate_.need() + 16 * 1024;
    device_ = *MakeCpuDevice({.capacity = state + shared.state});
    std::fill_n(device_->At(0), static_cast<std::size_t>(device_->capacity()), std::byte{0xab});
    engine_ = *Engine::Make(graph_, *shared.plan, device_, runner_);
    const Status moored = engine_->Moor({.state = state, .state_bytes = shared.state, .groups = shared.groups});
    EXPECT_TRUE(moored) << moored.error().message;
    for (Index s = 0; s < graph_.storages.size(); ++s) {
      if (engine_->home()[s] < state) continue;
      runner_.Bind(s, device_->At(engine_->home()[s]));
      std::ranges::copy(plain_.of(s), device_->At(engine_->home()[s]));
    }
  }

  tl::expected<StepReport, Failure> Step(double scalar) {
    StepCall call{.scalars = {scalar}, .gate = &gate_};
    for (Index s = 0; s < graph_.storages.size(); ++s) {
      if (graph_.storages[s].kind == StorageKind::kInput)
        call.inputs.push_back({s, 0, plain_.of(s).data(), graph_.storages[s].bytes});
    }
    return engine_->Step(call);
  }
  void FollowStep(double scalar) {
    plain_.Step(plain_runner_, std::vector<double>{scalar});
    ExpectSameState();
  }
  void ExpectSameState() {
    for (Index s = 0; s < graph_.storages.size(); ++s) {
      const Bytes home = engine_->home()[s];
      if (home < 0 || graph_.storages[s].kind == StorageKind::kInput) continue;
      const std::byte* const at = device_->At(home);
      EXPECT_TRUE(std::ranges::equal(plain_.of(s), std::span(at, at + graph_.storages[s].bytes))) << "state " << s;
    }
  }
  FixedGate& gate() { return gate_; }
  Device& device() { return *device_; }
  FakeRunner& runner() { return runner_; }
  Engine& engine() { return *engine_; }

 private:
  const TrainingGraph& graph_;
  FakeRunner runner_, plain_runner_;
  PlainMemory plain_;
  FixedGate gate_;
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
      EXPECT_EQ(guest.gate().groups, guest.gate().all_groups());
      EXPECT_TRUE(guest.gate().left);
      EXPECT_FALSE(guest.gate().inside);
      guest.FollowStep(step);
      EXPECT_EQ(guest.device().ledger()->held(), 0);
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
    for (Index group = 1; group < shared.groups.size(); ++group) {
      guest.gate().refuse = group;
      if (guest.Step(2)) {
        guest.FollowStep(2);  // the update had begun
      } else {
        ++refused;
        guest.ExpectSameState();
      }
      EXPECT_EQ(guest.device().ledger()->held(), 0);
      EXPECT_FALSE(guest.gate().inside);
    }
    guest.gate().refuse = sim::kNone;
    for (const Index op : {Index{0}, static_cast<Index>(shared.task->graph.ops.size() / 2)}) {
      const auto& ops = shared.task->graph.ops;
      if (std::any_of(ops.begin(), ops.begin() + op + 1, [](const Op& o) { return o.phase == Phase::kUpdate; }))
        continue;
      guest.runner().refused = op;
      EXPECT_FALSE(guest.Step(2));
      guest.runner().refused = sim::kNone;
      EXPECT_EQ(guest.device().ledger()->held(), 0);
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
  guest.gate().short_by = 1;
  const auto report = guest.Step(2);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("and was given"), std::string::npos) << report.error().message;
  guest.gate().short_by = 0;
  guest.ExpectSameState();
  const std::shared_ptr<Device> other = *guest.device().Beside();
  ASSERT_TRUE(other->Hold(0, 8192 + guest.gate().need() + 8 * 1024));
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
  EXPECT_FALSE(guest.engine().Moor({.state = 0, .state_bytes = shared.state, .lane = 0, .lane_bytes = need - 1}));
  EXPECT_FALSE(guest.engine().Moor({.state = 0, .state_bytes = shared.state - 1, .lane = 0, .lane_bytes = need}));
  ASSERT_TRUE(guest.Step(1));  // it is where it was
  guest.FollowStep(1);
}

TEST(Ledger, CountsAndRefuses) {
  Ledger ledger;
  const int a = ledger.Join(), b = ledger.Join();
  ASSERT_TRUE(ledger.Hold(a, 100, 50));
  ASSERT_TRUE(ledger.Hold(b, 150, 50));
  ASSERT_TRUE(ledger.Hold(b, 120, 0));
  EXPECT_FALSE(ledger.Hold(b, 149, 1));
  EXPECT_FALSE(ledger.Hold(a, 50, 51));
  EXPECT_FALSE(ledger.Hold(a, 0, 1000));
  EXPECT_EQ(ledger.held(), 100);
  ledger.LetGo(b, 100);  // not his
  EXPECT_EQ(ledger.held_by(a), 50);
  ledger.LetGo(a, 100);
  EXPECT_TRUE(ledger.Hold(b, 0, 150));
  EXPECT_EQ(ledger.peak(), 200);
  ledger.LetGoAll(b);
  EXPECT_EQ(ledger.held(), 0);
  EXPECT_EQ(ledger.peak(), 200);
}

// Two runners that draw from one generator, in turn: each draws what it would draw alone.
TEST(OwnRandom, DrawsAsIfAlone) {
  SharedCase shared;
  Index drawing = sim::kNone;
  for (int seed = 0; drawing == sim::kNone; ++seed) {
    shared = RandomSharedCase(seed, 1);
    for (Index op = 0; op < shared.task->graph.ops.size() && shared.plan; ++op) {
      if (shared.task->graph.ops[op].random) drawing = op;
    }
  }
  FakeRunner generator(shared.task->graph);
  generator.refused = sim::kNone;
  std::uint64_t state = 99;
  generator.LoadRandom(reinterpret_cast<const std::byte*>(&state));
  OwnRandom a(generator, shared.task->graph), b(generator, shared.task->graph);
  const auto state_of = [](OpRunner& runner) {
    std::uint64_t out = 0;
    runner.SaveRandom(reinterpret_cast<std::byte*>(&out));
    return out;
  };
  PlainMemory memory(shared.task->graph);
  for (Index s = 0; s < shared.task->graph.storages.size(); ++s) a.Bind(s, memory.of(s).data());
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
