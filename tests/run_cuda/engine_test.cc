// The engine on the CUDA device: random steps under random plans, ops that run when their stream gets to them, streams
// that are late by chance, the race checker beside. It gives what the step gives without a plan; no wait can be spared.
#include "run/engine.h"

#include <gtest/gtest.h>

#include "graph/hash.h"
#include "plan/make_plan.h"
#include "run/cuda_device.h"
#include "run/failing_device.h"
#include "tests/phantom/driver.h"
#include "tests/phantom/fresh_process.h"
#include "tests/plan/random_plans.h"
#include "tests/run_cuda/stream_runner.h"

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
class Twins {
 public:
  Twins(const TrainingGraph& graph, plan::Plan plan, Bytes pinned_limit = -1)
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
    for (Index s = 0; s < graph.storages.size(); ++s) {
      if (Home(s) < 0) continue;
      runner_.Bind(s, gpu_->At(Home(s)));
      const auto write = [&] { return gpu_->Write(plain_.of(s).data(), Home(s), graph.storages[s].bytes); };
      EXPECT_TRUE(write() || write());
    }
    gpu_->Drain();
  }
  ~Twins() {
    engine_.reset();
    gpu_->Drain();
  }

  tl::expected<StepReport, Failure> Step(double scalar) {
    outputs_.clear();
    StepCall call;
    call.scalars = {scalar};
    for (const TensorId id : graph_.outputs) {
      const Index s = static_cast<Index>(graph_.tensor(id).storage.index());
      if (graph_.storages[s].bytes == 0) continue;
      std::vector<std::byte>& output = outputs_[s];
      output.resize(static_cast<std::size_t>(graph_.storages[s].bytes));
      call.outputs.push_back({s, 0, output.data(), graph_.storages[s].bytes});
    }
    return engine_->Step(call);
  }

  void FollowStep(double scalar) {
    plain_.Step(plain_runner_, std::vector<double>{scalar});
    for (Index s = 0; s < graph_.storages.size(); ++s) {
      if (Home(s) < 0) continue;
      EXPECT_EQ(Content(s), plain_.of(s)) << "state " << s;
    }
    for (const auto& [s, output] : outputs_) EXPECT_EQ(output, plain_.of(s)) << "output " << s;
    std::uint64_t ours = 0, plain = 0;
    runner_.SaveRandom(reinterpret_cast<std::byte*>(&ours));
    plain_runner_.SaveRandom(reinterpret_cast<std::byte*>(&plain));
    EXPECT_EQ(ours, plain);
  }

  // State and random state.
  std::vector<std::byte> Everything() {
    std::vector<std::byte> out(runner_.RandomBytes());
    runner_.SaveRandom(out.data());
    for (Index s = 0; s < graph_.storages.size(); ++s) {
      if (Home(s) < 0) continue;
      const std::vector<std::byte> content = Content(s);
      out.insert(out.end(), content.begin(), content.end());
    }
    return out;
  }

  std::vector<std::byte> Content(Index s) {
    const std::byte* const at = ContentOf(gpu_->At(Home(s)), graph_.storages[s].bytes);
    return {at, at + (at ? graph_.storages[s].bytes : 0)};
  }
  Bytes Home(Index s) const { return engine_->home()[s]; }
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
  std::map<Index, std::vector<std::byte>> outputs_;
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
        Twins twins(random.task->graph, *random.plan, i % 3 == 0 ? -1 : i % 3 == 1 ? 0 : 4096);
        for (int step = 1; step <= 2; ++step) {
          const auto report = twins.Step(step);
          ASSERT_TRUE(report) << report.error().message;
          EXPECT_LE(report->peak, twins.gpu().capacity());
          twins.FollowStep(step);
        }
        waits += twins.gpu().waits();
        ASSERT_EQ(ebbtide_phantom_race_count(), 0);
        if (testing::Test::HasFailure()) return;
      }
      EXPECT_GT(waits, 200);
    });
  }
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
      Twins twins(random.task->graph, *random.plan);
      ASSERT_TRUE(twins.Step(1));
      const std::int64_t waits = twins.gpu().waits();
      for (std::int64_t wait = 1; wait <= waits; ++wait) {
        const std::int64_t before = ebbtide_phantom_race_count();
        twins.gpu().SkipWait(wait);
        ASSERT_TRUE(twins.Step(1));
        EXPECT_GT(ebbtide_phantom_race_count(), before) << "wait " << wait << " of " << waits;
        ++left_out;
      }
    }
    EXPECT_GT(left_out, 50);
  });
}

TEST(CudaEngine, AnyCallThatFailsLeavesEverythingAsItWas) {
  InFreshProcess({{"BACKED", "64MiB"}, {"JITTER_US", "5"}}, [] {
    phantom::StartDriver();
    int failed = 0, made_good = 0;
    for (int i = 0; i < plan::Cases(40); ++i) {
      SCOPED_TRACE(testing::Message() << "case " << i);
      const Case random = RandomCase(i);
      if (!random.plan) continue;
      Twins twins(random.task->graph, *random.plan);
      const std::int64_t before = twins.device().calls();
      ASSERT_TRUE(twins.Step(1));
      twins.FollowStep(1);
      const std::int64_t calls = twins.device().calls() - before - twins.outputs();
      for (std::int64_t call = 1; call <= calls; ++call) {
        const std::vector<std::byte> everything = twins.Everything();
        twins.device().FailAt(call);
        const auto report = twins.Step(2);
        twins.device().FailAt(0);
        if (report) {
          ++made_good;
          twins.FollowStep(2);
        } else {
          ++failed;
          ASSERT_EQ(twins.Everything(), everything) << "call " << call;
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
                           "cuEventRecord", "cuStreamWaitEvent", "cuStreamSynchronize"}) {
    // The first stream is the test's own.
    for (int n = std::string_view(call) == "cuStreamCreate" ? 2 : 1; n <= 60; ++n) {
      SCOPED_TRACE(testing::Message() << call << " " << n);
      InFreshProcess({{"BACKED", "64MiB"}, {"FAIL", std::string(call) + "@" + std::to_string(n)}}, [&] {
        phantom::StartDriver();
        Twins twins(random.task->graph, *random.plan);
        for (int step = 1; step <= 2; ++step) {
          const std::vector<std::byte> everything = twins.Everything();
          if (twins.Step(step))
            twins.FollowStep(step);
          else
            ASSERT_EQ(twins.Everything(), everything);
        }
      });
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ebbtide::run
