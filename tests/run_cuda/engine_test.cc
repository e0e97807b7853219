// The engine on the CUDA device: random steps under random plans, ops that run when their stream gets to them, streams
// that are late by chance, the race checker beside. It gives what the step gives without a plan; no wait can be spared.
#include "run/engine/engine.h"

#include <gtest/gtest.h>

#include "graph/hash.h"
#include "plan/make_plan.h"
#include "run/device/cuda_device.h"
#include "run/device/failing_device.h"
#include "tests/run_cuda/stream_runner.h"
#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"
#include "tests/support/random_plans.h"

namespace ebbtide::run {
namespace {

using phantom::InFreshProcess;

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
  plan::Plan plan;
  plan.graph_hash = GraphHash(out.task->graph);
  plan.alignment = out.task->workload.alignment;
  plan.schedule = rollout.TakeSchedule();
  plan.peak = plan.budget = plan::GiveAddresses(out.task->workload, plan.schedule);
  out.plan = std::move(plan);
  return out;
}

// As in tests/run/engine_test.cc, on a GPU.
class PlannedAndPlain {
 public:
  PlannedAndPlain(const TrainingGraph& graph, plan::Plan plan, Bytes pinned_limit = -1)
      : graph_(graph), stream_(phantom::NewStream()), runner_(graph, stream_), plain_runner_(graph), plain_(graph) {
    const CudaDeviceOptions options{.capacity = plan.peak, .pinned_limit = pinned_limit};
    Result<std::shared_ptr<CudaDevice>> gpu = MakeCudaDevice(options);
    if (!gpu) gpu = MakeCudaDevice(options);  // where a call of the driver failed
    gpu_ = *std::move(gpu);
    gpu_->SetCompute(stream_);
    device_ = std::make_shared<FailingDevice>(gpu_);
    Result<std::unique_ptr<Engine>> made = Engine::Make(graph, std::move(plan), device_, runner_);
    if (!made) ADD_FAILURE() << made.error().message;
    engine_ = *std::move(made);
    for (const StorageId s : Ids<StorageId>(graph.storages.size())) {
      if (Home(s) < 0) continue;
      runner_.Bind(s, gpu_->At(Home(s)));
      const auto write = [&] { return gpu_->Write(plain_.of(s).data(), Home(s), graph.storage(s).bytes); };
      EXPECT_TRUE(write() || write());
    }
    gpu_->Drain();
  }
  ~PlannedAndPlain() {
    engine_.reset();
    gpu_->Drain();
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

  // All ops but those that draw random numbers or, in the update, are given numbers; `update`: the numbers do not
  // change.
  void Capture(bool update = false) {
    IdVector<OpId, bool> capturable;
    for (const Op& op : graph_.ops) capturable.push_back(!op.random && (update || op.phase != Phase::kUpdate));
    engine_->SetCapturable(capturable);
  }

  void FollowStep(double scalar) {
    plain_.Step(plain_runner_, std::vector<double>{scalar});
    for (const StorageId s : Ids<StorageId>(graph_.storages.size())) {
      if (Home(s) < 0) continue;
      EXPECT_EQ(Content(s), plain_.of(s)) << "state " << s.value;
    }
    for (const auto& [s, output] : outputs_) EXPECT_EQ(output, plain_.of(s)) << "output " << s.value;
    std::uint64_t ours = 0, plain = 0;
    runner_.SaveRandom(reinterpret_cast<std::byte*>(&ours));
    plain_runner_.SaveRandom(reinterpret_cast<std::byte*>(&plain));
    EXPECT_EQ(ours, plain);
  }

  // State and random state.
  std::vector<std::byte> Everything() {
    std::vector<std::byte> out(runner_.RandomBytes());
    runner_.SaveRandom(out.data());
    for (const StorageId s : Ids<StorageId>(graph_.storages.size())) {
      if (Home(s) < 0) continue;
      const std::vector<std::byte> content = Content(s);
      out.insert(out.end(), content.begin(), content.end());
    }
    return out;
  }

  std::vector<std::byte> Content(StorageId s) {
    const std::byte* const at = ContentOf(gpu_->At(Home(s)), graph_.storage(s).bytes);
    return {at, at + (at ? graph_.storage(s).bytes : 0)};
  }
  Bytes Home(StorageId s) const { return engine_->home()[s]; }
  CudaDevice& gpu() { return *gpu_; }
  FailingDevice& device() { return *device_; }
  std::int64_t outputs() const { return static_cast<std::int64_t>(outputs_.size()); }

 private:
  const TrainingGraph& graph_;
  const CUstream stream_;
  StreamRunner runner_;
  FakeRunner plain_runner_;
  PlainMemory plain_;
  std::shared_ptr<CudaDevice> gpu_;
  std::shared_ptr<FailingDevice> device_;
  std::unique_ptr<Engine> engine_;
  std::map<StorageId, std::vector<std::byte>> outputs_;
};

TEST(CudaEngine, GivesWhatTheStepGivesWithoutAPlan) {
  for (const char* seed : {"1", "2"}) {
    InFreshProcess({{"BACKED", "64MiB"}, {"JITTER_US", "20"}, {"SEED", seed}, {"CHECK", "race"}}, [] {
      phantom::StartDriver();
      std::int64_t waits = 0;
      for (int i = 0; i < plan::Cases(80); ++i) {
        SCOPED_TRACE(testing::Message() << "case " << i);
        const Case random = RandomCase(i);
        if (!random.plan) continue;
        // Pinned memory all, none, or a little.
        PlannedAndPlain both(random.task->graph, *random.plan, i % 3 == 0 ? -1 : i % 3 == 1 ? 0 : 4096);
        for (int step = 1; step <= 2; ++step) {
          const auto report = both.Step(step);
          ASSERT_TRUE(report) << report.error().message;
          EXPECT_LE(report->peak, both.gpu().capacity());
          both.FollowStep(step);
        }
        waits += both.gpu().waits();
        ASSERT_EQ(ebbtide_phantom_race_count(), 0);
        if (testing::Test::HasFailure()) return;
      }
      EXPECT_GT(waits, 200);
    });
  }
}

TEST(CudaEngine, CapturedRunsGiveWhatTheirOpsGive) {
  InFreshProcess({{"BACKED", "64MiB"}, {"JITTER_US", "20"}, {"CHECK", "race"}}, [] {
    phantom::StartDriver();
    std::int64_t graphs = 0, ops = 0;
    for (int i = 0; i < plan::Cases(80); ++i) {
      SCOPED_TRACE(testing::Message() << "case " << i);
      const Case random = RandomCase(i);
      if (!random.plan) continue;
      PlannedAndPlain both(random.task->graph, *random.plan);
      const bool update = i % 2 == 0;
      both.Capture(update);
      for (int step = 1; step <= 4; ++step) {  // op by op, captured, and launched again
        const int scalar = update ? 1 : step;
        const auto report = both.Step(scalar);
        ASSERT_TRUE(report) << report.error().message;
        EXPECT_LE(report->peak, both.gpu().capacity());
        EXPECT_TRUE(step > 1 || report->graphs == 0);
        if (step == 4) graphs += report->graphs, ops += report->graph_ops;
        both.FollowStep(scalar);
      }
      ASSERT_EQ(ebbtide_phantom_race_count(), 0);
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(graphs, 80);
    EXPECT_GT(ops, 3 * graphs);
  });
}

TEST(CudaEngine, NoWaitCanBeLeftOut) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a wait that is left out is a race, which ThreadSanitizer finds too";
#endif
  InFreshProcess({{"BACKED", "64MiB"}, {"CHECK", "race"}}, [] {
    phantom::StartDriver();
    int left_out = 0;
    for (int i = 0; i < plan::Cases(40); ++i) {
      SCOPED_TRACE(testing::Message() << "case " << i);
      const Case random = RandomCase(i);
      if (!random.plan) continue;
      PlannedAndPlain both(random.task->graph, *random.plan);
      ASSERT_TRUE(both.Step(1));
      const std::int64_t waits = both.gpu().waits();
      for (std::int64_t wait = 1; wait <= waits; ++wait) {
        const std::int64_t before = ebbtide_phantom_race_count();
        both.gpu().SkipWait(wait);
        ASSERT_TRUE(both.Step(1));
        EXPECT_GT(ebbtide_phantom_race_count(), before) << "wait " << wait << " of " << waits;
        ++left_out;
      }
    }
    EXPECT_GT(left_out, 50);
  });
}

TEST(CudaEngine, AnyCallThatFailsLeavesEverythingAsItWas) {
  for (const bool captures : {false, true})
    InFreshProcess({{"BACKED", "64MiB"}, {"JITTER_US", "5"}}, [&] {
      phantom::StartDriver();
      int failed = 0, made_good = 0;
      for (int i = 0; i < plan::Cases(40); ++i) {
        SCOPED_TRACE(testing::Message() << "case " << i);
        const Case random = RandomCase(i);
        if (!random.plan) continue;
        PlannedAndPlain both(random.task->graph, *random.plan);
        if (captures) both.Capture();
        const std::int64_t before = both.device().calls();
        ASSERT_TRUE(both.Step(1));
        both.FollowStep(1);
        const std::int64_t calls = both.device().calls() - before - both.outputs();
        for (std::int64_t call = 1; call <= calls; ++call) {
          const std::vector<std::byte> everything = both.Everything();
          both.device().FailAt(call);
          const auto report = both.Step(2);
          both.device().FailAt(0);
          if (report) {
            ++made_good;
            both.FollowStep(2);
          } else {
            ++failed;
            ASSERT_EQ(both.Everything(), everything) << "call " << call;
          }
          if (testing::Test::HasFailure()) return;
        }
      }
      EXPECT_GT(failed, 10);
      EXPECT_GT(made_good, 30);
    });
}

// Of the driver's own calls each in turn: in making the device, or in a step.
TEST(CudaEngine, AnyCallOfTheDriverMayFail) {
  const Case random = [] {
    for (int i = 0;; ++i) {
      Case found = RandomCase(i);
      const auto copies = [&] {
        return std::ranges::count(found.plan->schedule.stays, sim::Begin::kCopyIn, &sim::Stay::begin);
      };
      if (found.plan && copies() > 3) return found;
    }
  }();
  for (const char* call : {"cuMemAlloc", "cuStreamCreate", "cuEventCreate", "cuMemHostRegister", "cuMemcpyAsync",
                           "cuEventRecord", "cuStreamWaitEvent", "cuStreamSynchronize", "cuStreamBeginCapture",
                           "cuStreamEndCapture", "cuGraphInstantiate", "cuGraphLaunch"}) {
    // The first stream is the test's own.
    for (int n = std::string_view(call) == "cuStreamCreate" ? 2 : 1; n <= 60; ++n) {
      SCOPED_TRACE(testing::Message() << call << " " << n);
      InFreshProcess({{"BACKED", "64MiB"}, {"FAIL", std::string(call) + "@" + std::to_string(n)}}, [&] {
        phantom::StartDriver();
        PlannedAndPlain both(random.task->graph, *random.plan);
        const bool captures = std::string_view(call).find("Graph") != std::string_view::npos ||
                              std::string_view(call).find("Capture") != std::string_view::npos;
        if (captures) both.Capture();
        for (int step = 1; step <= (captures ? 3 : 2); ++step) {
          const std::vector<std::byte> everything = both.Everything();
          if (both.Step(step))
            both.FollowStep(step);
          else
            ASSERT_EQ(both.Everything(), everything);
        }
      });
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ebbtide::run
