// The engine on random steps and random plans, with contents checked byte by byte: it gives what the step gives without
// a plan, within the pool, step after step; and where something fails, nothing has changed.
#include "run/engine/engine.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "graph/hash.h"
#include "plan/make_plan.h"
#include "plan/place.h"
#include "run/device/cpu_device.h"
#include "run/device/failing_device.h"
#include "sim/trim.h"
#include "tests/support/fake_runner.h"
#include "tests/support/hand_graph.h"
#include "tests/support/id_literals.h"
#include "tests/support/random_plans.h"

namespace ebbtide::run {
namespace {

plan::Plan PlanOf(const TrainingGraph& graph, const sim::Workload& workload, sim::Schedule schedule) {
  plan::Plan plan;
  plan.graph_hash = GraphHash(graph);
  plan.alignment = workload.alignment;
  plan.peak = plan.budget = plan::GiveAddresses(workload, schedule);
  plan.schedule = std::move(schedule);
  return plan;
}

// An engine on a pool that is as large as the plan, and the same step without a plan.
class PlannedAndPlain {
 public:
  PlannedAndPlain(const TrainingGraph& graph, plan::Plan plan, Bytes spare = 0)
      : graph_(graph), runner_(graph), plain_runner_(graph), plain_(graph) {
    device_ = std::make_shared<FailingDevice>(*MakeCpuDevice({.capacity = plan.peak + spare}));
    Result<std::unique_ptr<Engine>> made = Engine::Make(graph, std::move(plan), device_, runner_);
    if (!made) ADD_FAILURE() << made.error().message;
    engine_ = *std::move(made);
    for (const StorageId s : Ids<StorageId>(graph.storages.size())) {
      if (Home(s) < 0) continue;
      runner_.Bind(s, device_->At(Home(s)));
      std::ranges::copy(plain_.of(s), device_->At(Home(s)));
    }
  }

  // The engine's own memory as state, outputs and random state.
  std::vector<std::byte> Everything() {
    std::vector<std::byte> out(runner_.RandomBytes());
    runner_.SaveRandom(out.data());
    for (const StorageId s : Ids<StorageId>(graph_.storages.size())) {
      if (Home(s) >= 0) out.insert(out.end(), device_->At(Home(s)), device_->At(Home(s)) + graph_.storage(s).bytes);
    }
    return out;
  }

  tl::expected<StepReport, Failure> Step(double scalar) {
    outputs_.clear();
    StepCall call;
    call.scalars = {scalar};
    for (const TensorId id : graph_.outputs) {
      const StorageId s = graph_.tensor(id).storage;
      if (graph_.storage(s).bytes == 0) continue;
      std::vector<std::byte>& output = outputs_[s];
      output.resize(static_cast<std::size_t>(graph_.storage(s).bytes));
      call.outputs.push_back({s, 0, output.data(), graph_.storage(s).bytes});
    }
    return engine_->Step(call);
  }

  void ExpectSameStep(double scalar) {
    const auto report = Step(scalar);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_LE(report->peak, device_->capacity());
    EXPECT_LE(report->live_peak, report->peak);
    FollowStep(scalar);
  }

  // The twin takes the step that the engine has taken, and has the same then.
  void FollowStep(double scalar) {
    plain_.Step(plain_runner_, std::vector<double>{scalar});
    for (const StorageId s : Ids<StorageId>(graph_.storages.size())) {
      if (Home(s) < 0) continue;
      const std::byte* const at = device_->At(Home(s));
      EXPECT_TRUE(std::ranges::equal(plain_.of(s), std::span(at, at + graph_.storage(s).bytes))) << "state " << s.value;
    }
    for (const auto& [s, output] : outputs_) EXPECT_EQ(output, plain_.of(s)) << "output " << s.value;
    std::uint64_t ours = 0, plain = 0;
    runner_.SaveRandom(reinterpret_cast<std::byte*>(&ours));
    plain_runner_.SaveRandom(reinterpret_cast<std::byte*>(&plain));
    EXPECT_EQ(ours, plain);
  }

  std::int64_t outputs() const { return static_cast<std::int64_t>(outputs_.size()); }
  Bytes Home(StorageId s) const { return engine_->home()[s]; }
  Engine& engine() { return *engine_; }
  FakeRunner& runner() { return runner_; }
  FailingDevice& device() { return *device_; }

 private:
  const TrainingGraph& graph_;
  FakeRunner runner_, plain_runner_;
  PlainMemory plain_;
  std::shared_ptr<FailingDevice> device_;
  std::unique_ptr<Engine> engine_;
  std::map<StorageId, std::vector<std::byte>> outputs_;
};

// A random step whose dropouts draw, and a schedule that random preferences lead to; none where they lead to none.
struct Case {
  std::unique_ptr<plan::Task> task;
  std::optional<plan::Plan> plan;
};
Case RandomCase(int seed) {
  Case out{plan::RandomTask(static_cast<std::uint64_t>(seed)), {}};
  for (Op& op : out.task->graph.ops) op.random = op.kind == "native_dropout";
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  const plan::Preferences preferences = plan::RandomPreferences(out.task->workload, random);
  plan::Rollout rollout(out.task->problem, preferences, /*record=*/true);
  if (!rollout.Run()) return out;
  sim::Schedule schedule = rollout.TakeSchedule();
  if (seed % 2 == 0) sim::Trim(out.task->workload, out.task->problem.link, schedule);
  out.plan = PlanOf(out.task->graph, out.task->workload, std::move(schedule));
  return out;
}

TEST(Engine, GivesWhatTheStepGivesWithoutAPlan) {
  int swaps = 0, recomputations = 0, repeated = 0;
  const int cases = plan::Cases(300);
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Case random = RandomCase(seed);
    if (!random.plan) continue;
    std::map<OpId, int> runs;
    for (const OpId op : random.plan->schedule.steps) ++runs[op];
    for (const auto& [op, count] : runs) recomputations += count > 1, repeated += count > 2;
    for (const sim::Stay& stay : random.plan->schedule.stays) swaps += stay.begin == sim::Begin::kCopyIn;
    PlannedAndPlain both(random.task->graph, *random.plan);
    for (int step = 1; step <= 3; ++step) both.ExpectSameStep(step);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(swaps, cases);
  EXPECT_GT(recomputations, cases / 2);
  EXPECT_GT(repeated, 10);
}

// Parameters and all else that is there before the step lie in memory of the test's own; the halves are called one by
// one, and random numbers are drawn between them.
TEST(Engine, GivesTheSameInHalvesWithStateOutsideThePool) {
  int again = 0;
  for (int seed = 0; seed < plan::Cases(150); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Case random = RandomCase(seed);
    if (!random.plan) continue;
    TrainingGraph graph = random.task->graph;
    for (Storage& storage : graph.storages) storage.outside = IsPersistent(storage.kind);
    const bool moves_state = std::ranges::any_of(random.plan->schedule.stays, [&](const sim::Stay& stay) {
      return graph.storage(stay.storage).outside && stay.end != sim::End::kStays;
    });
    const sim::Workload workload =
        sim::MakeWorkload(graph, random.task->workload.time.values(), {.alignment = random.task->workload.alignment});
    const plan::Plan plan = PlanOf(graph, workload, random.plan->schedule);
    EXPECT_LE(plan.peak, random.plan->peak);
    FakeRunner runner(graph), plain_runner(graph);
    PlainMemory plain(graph);
    auto engine = Engine::Make(graph, plan, *MakeCpuDevice({.capacity = plan.peak}), runner);
    if (moves_state) {
      ASSERT_FALSE(engine);
      EXPECT_NE(engine.error().message.find("lies outside the pool; expected it to stay there"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(engine) << engine.error().message;
    std::map<StorageId, std::vector<std::byte>> mine;
    StepCall call;
    for (const StorageId s : Ids<StorageId>(graph.storages.size())) {
      if (!graph.storage(s).outside) continue;
      EXPECT_EQ((*engine)->home()[s], -1);
      mine[s] = plain.of(s);
      call.outside.emplace_back(s, mine[s].data());
    }
    for (int step = 1; step <= 3; ++step) {
      call.scalars = {static_cast<double>(step)};
      ASSERT_TRUE((*engine)->Forward(call));
      EXPECT_TRUE((*engine)->midway());
      if (step == 2) {  // nobody goes back
        (*engine)->Abandon();
        for (auto& [s, bytes] : mine) bytes = plain.of(s);
        std::uint64_t state = 0;
        plain_runner.SaveRandom(reinterpret_cast<std::byte*>(&state));
        runner.LoadRandom(reinterpret_cast<std::byte*>(&state));
        continue;
      }
      const auto report = (*engine)->Backward(call);
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_LE(report->peak, plan.peak);
      again += report->recompute > 0;
      plain.Step(plain_runner, call.scalars);
      for (const auto& [s, bytes] : mine) ASSERT_EQ(bytes, plain.of(s)) << "storage " << s.value;
    }
    EXPECT_FALSE((*engine)->midway());
    EXPECT_FALSE((*engine)->Backward(call));
  }
  EXPECT_GT(again, 20);
}

TEST(Engine, AnyCallThatFailsLeavesEverythingAsItWas) {
  int failed = 0, made_good = 0;
  for (int seed = 0; seed < plan::Cases(60); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Case random = RandomCase(seed);
    if (!random.plan) continue;
    PlannedAndPlain both(random.task->graph, *random.plan);
    const std::int64_t before = both.device().calls();
    both.ExpectSameStep(1);
    // The last calls read the outputs, when the update is done.
    const std::int64_t calls = both.device().calls() - before - both.outputs();
    for (std::int64_t call = 1; call <= calls; ++call) {
      SCOPED_TRACE(testing::Message() << "call " << call);
      const std::vector<std::byte> everything = both.Everything();
      both.device().FailAt(call);
      const auto report = both.Step(2);
      both.device().FailAt(0);
      if (report) {  // a copy, which was made again
        ++made_good;
        both.FollowStep(2);
      } else {
        ++failed;
        ASSERT_EQ(both.Everything(), everything);
      }
      if (call % 8 == 0) both.ExpectSameStep(3);
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(failed, 50);
  EXPECT_GT(made_good, 200);
}

TEST(Engine, AnyRequestThatFailsLeavesEverythingAsItWas) {
  int failed = 0;
  for (int seed = 0; seed < plan::Cases(60); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Case random = RandomCase(seed);
    if (!random.plan) continue;
    PlannedAndPlain both(random.task->graph, *random.plan);
    both.ExpectSameStep(1);
    for (int request = 1;; ++request) {
      const std::vector<std::byte> everything = both.Everything();
      both.engine().memory().FailAt(request);
      const auto report = both.Step(2);
      if (report) break;  // there are fewer requests before the update
      ++failed;
      EXPECT_EQ(report.error().kind, Failure::Kind::kOutOfMemory);
      ASSERT_EQ(both.Everything(), everything);
    }
  }
  EXPECT_GT(failed, 500);
}

TEST(Engine, AnInterruptedStepLeavesEverythingAsItWas) {
  const Case random = RandomCase(3);
  ASSERT_TRUE(random.plan);
  PlannedAndPlain both(random.task->graph, *random.plan);
  both.ExpectSameStep(1);
  for (int after = 0;; ++after) {
    const std::vector<std::byte> everything = both.Everything();
    int asked = 0;
    StepCall call;
    call.scalars = {2};
    call.interrupted = [&] { return asked++ == after; };
    const auto report = both.engine().Step(call);
    if (report) {
      EXPECT_GT(after, 3);
      break;
    }
    EXPECT_EQ(report.error().kind, Failure::Kind::kInterrupted);
    ASSERT_EQ(both.Everything(), everything);
  }
}

TEST(Engine, AnOpThatFailsSaysWhetherTheUpdateHadBegun) {
  const Case random = RandomCase(3);
  ASSERT_TRUE(random.plan);
  const TrainingGraph& graph = random.task->graph;
  PlannedAndPlain both(graph, *random.plan);
  both.ExpectSameStep(1);
  bool in_update = false;
  for (const OpId op : Ids<OpId>(graph.ops.size())) {
    in_update = in_update || graph.op(op).phase == Phase::kUpdate;
    const std::vector<std::byte> everything = both.Everything();
    both.runner().refused = op;
    const auto report = both.Step(2);
    ASSERT_FALSE(report);
    const std::string& message = report.error().message;
    EXPECT_EQ(message.find("the update had begun") != std::string::npos, in_update) << message;
    EXPECT_EQ(message.find(fmt::format("op {} ({}): refused", op.value, graph.op(op).kind)), 0u) << message;
    if (!in_update) {
      ASSERT_EQ(both.Everything(), everything);
    }
  }
  EXPECT_TRUE(in_update);
}

// op 0 makes A (64), op 1 makes B (64) of A; the pool has 64 more.
struct TwoOps {
  TwoOps() {
    const TensorId a = step.Make("a", {}, 64, {.time = 1});
    const TensorId b = step.Make("b", {a}, 64, {.time = 1});
    step.graph.outputs.push_back(b);
  }
  plan::Plan Plan() const {
    sim::Schedule schedule{.steps = {0_op, 1_op},
                           .stays = {{.storage = 0_storage, .from = 0_step, .to = 2_step},
                                     {.storage = 1_storage, .from = 1_step, .to = 2_step, .end = sim::End::kStays}},
                           .workspace_address = {}};
    return PlanOf(step.graph, step.Workload(64), std::move(schedule));
  }
  HandGraph step;
};

TEST(Engine, LearnsWhichRequestIsForWhatAnOpMakes) {
  const TwoOps two;
  for (const bool kept : {false, true}) {
    PlannedAndPlain both(two.step.graph, two.Plan(), 64);
    // Something of the size of the result is asked for before it.
    (kept ? both.runner().decoy_kept : both.runner().decoy_released) = true;
    auto report = both.Step(1);
    ASSERT_TRUE(report) << report.error().message;
    // Kept, it took the place of the result, which went to the free 64 bytes and was moved.
    EXPECT_EQ(report->relocated, kept ? 2 : 0);
    report = both.Step(1);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->relocated, 0);
    EXPECT_EQ(report->beyond_plan, 64);
    EXPECT_EQ(report->peak, 3 * 64);
    both.runner().decoy_kept = both.runner().decoy_released = false;
  }
}

TEST(Engine, ScratchMemoryThatThePlanDoesNotHaveComesFromWhatIsFree) {
  TwoOps two;
  const plan::Plan plan = two.Plan();
  PlannedAndPlain roomy(two.step.graph, plan, 64), too_small(two.step.graph, plan, 0);
  for (PlannedAndPlain* both : {&roomy, &too_small}) both->runner().decoy_kept = true;
  EXPECT_TRUE(roomy.Step(1));
  const auto report = too_small.Step(1);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, Failure::Kind::kOutOfMemory);
}

TEST(Engine, RefusesAPoolThatIsTooSmall) {
  const TwoOps two;
  FakeRunner runner(two.step.graph);
  const Result<std::unique_ptr<Engine>> engine =
      Engine::Make(two.step.graph, two.Plan(), *MakeCpuDevice({.capacity = 127}), runner);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().message, "the plan needs 128 bytes (128 B), the pool has 127 (127 B)");
}

}  // namespace
}  // namespace ebbtide::run
