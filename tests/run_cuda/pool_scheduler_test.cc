// Several steps on one GPU's pool, each in a thread that runs ahead of it: memory that one has given up and another
// takes is waited for on the device, and by no more waits than it needs.
#include "share/scheduler/pool_scheduler.h"

#include <gtest/gtest.h>

#include "run/device/cuda_device.h"
#include "tests/run_cuda/stream_runner.h"
#include "tests/support/members.h"
#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::share {
namespace {

using phantom::InFreshProcess;
using run::StreamRunner;

struct Jobs {
  Jobs(const std::vector<run::SharedCase>& cases, double more) {
    Bytes capacity = 0;
    for (const run::SharedCase& shared : cases) capacity += 2 * shared.plan->peak + 64;
    gpu = *run::MakeCudaDevice({.capacity = capacity});
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const CUstream stream = phantom::NewStream();
      const std::shared_ptr<run::Device> device = *gpu->Beside();
      device->SetCompute(stream);
      runners.push_back(std::make_unique<StreamRunner>(cases[i].task->graph, stream));
      members.push_back(std::make_unique<Member<StreamRunner>>(cases[i], static_cast<int>(i), device, *runners.back(),
                                                               &run::ContentOf));
    }
    const PipelineOptions options{.capacity = CapacityFor(members, more), .alignment = kAlignment};
    scheduler = std::make_unique<PoolScheduler>(DispatcherOptions{.pipeline = options, .runs_ahead = true});
  }
  std::shared_ptr<run::CudaDevice> gpu;
  std::vector<std::unique_ptr<StreamRunner>> runners;
  std::vector<std::unique_ptr<Member<StreamRunner>>> members;
  std::unique_ptr<PoolScheduler> scheduler;
};

TEST(CudaPoolScheduler, EveryStepGivesWhatItGivesAlone) {
  for (const char* seed : {"1", "2"}) {
    InFreshProcess({{"BACKED", "64MiB"}, {"JITTER_US", "20"}, {"SEED", seed}, {"CHECK", "race"}}, [] {
      phantom::StartDriver();
      std::int64_t waits = 0;
      for (int round = 0; round < plan::Cases(12); ++round) {
        SCOPED_TRACE(testing::Message() << "round " << round);
        const std::vector<run::SharedCase> cases = SomeCases(2 + round % 3, round * 10);
        Jobs jobs(cases, 0.25 * (round % 5));
        for (auto& member : jobs.members) member->Join(*jobs.scheduler);
        if (testing::Test::HasFailure()) return;
        RunAll(jobs.members, 3, [](int) { phantom::StartDriver(); });
        for (auto& member : jobs.members) member->ExpectSame();
        for (auto& member : jobs.members) member->Leave();
        EXPECT_EQ(jobs.gpu->holdings()->held(), 0);
        waits += jobs.gpu->waits();
        ASSERT_EQ(ebbtide_phantom_race_count(), 0);
        if (testing::Test::HasFailure()) return;
      }
      EXPECT_GT(waits, 50);
    });
  }
}

TEST(CudaPoolScheduler, AStoppedJobGivesItsMemoryBackAndTheRestGoOn) {
  InFreshProcess({{"BACKED", "64MiB"}, {"JITTER_US", "5"}, {"CHECK", "race"}}, [] {
    phantom::StartDriver();
    const std::vector<run::SharedCase> cases = SomeCases(4, 100);
    Jobs jobs(cases, 0.5);
    for (auto& member : jobs.members) member->Join(*jobs.scheduler);
    if (testing::Test::HasFailure()) return;
    std::atomic<bool> over = false;
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < 4; ++i) {
      others.emplace_back([&, i] {
        phantom::StartDriver();
        for (int step = 1; !over; ++step) EXPECT_TRUE(jobs.members[i]->Step(step));
      });
    }
    std::mt19937_64 random(5);
    for (int n = 0; n < plan::Cases(30) && !testing::Test::HasFailure(); ++n) {
      const JobId job = jobs.members[0]->job();
      std::thread stopper([&, wait = random() % 3000] {
        std::this_thread::sleep_for(std::chrono::microseconds(wait));
        jobs.scheduler->Stop(job);
      });
      for (int step = 1; jobs.members[0]->Step(step); ++step) {
      }
      stopper.join();
      jobs.members[0]->ExpectSame();
      if (n % 3 == 0) {
        jobs.members[0]->Leave();
        jobs.members[0]->Join(*jobs.scheduler);
      } else {
        jobs.scheduler->Resume(job);
      }
    }
    over = true;
    for (std::thread& thread : others) thread.join();
    for (auto& member : jobs.members) member->ExpectSame();
    for (auto& member : jobs.members) member->Leave();
    EXPECT_EQ(jobs.gpu->holdings()->held(), 0);
    EXPECT_EQ(ebbtide_phantom_race_count(), 0);
  });
}

// Two that take turns in a lane for one: the waits for each other are there, and each is needed.
TEST(CudaPoolScheduler, NoWaitForAnotherStepCanBeLeftOut) {
  InFreshProcess({{"BACKED", "64MiB"}, {"CHECK", "race"}}, [] {
    phantom::StartDriver();
    const auto gpu = *run::MakeCudaDevice({.capacity = 1 << 20});
    const std::shared_ptr<run::Device> a = *gpu->Beside(), b = *gpu->Beside();
    a->SetCompute(phantom::NewStream());
    b->SetCompute(phantom::NewStream());
    const run::Used memory[] = {{4096, 4096, true}}, elsewhere[] = {{65536, 4096, true}};
    const auto op = [](run::Device& device, std::span<const run::Used> used) {
      ASSERT_TRUE(device.BeginOp("op", used));
      device.EndOp();
      device.Mark();
    };
    op(*a, memory);
    op(*a, elsewhere);  // newer: nobody waits for it
    const std::int64_t before = gpu->waits();
    op(*b, memory);
    EXPECT_EQ(gpu->waits(), before + 1);
    op(*b, memory);
    EXPECT_EQ(gpu->waits(), before + 1);
    EXPECT_EQ(ebbtide_phantom_race_count(), 0);
    op(*a, memory);
    EXPECT_EQ(gpu->waits(), before + 2);
    gpu->SkipWait(1);
    op(*b, memory);
    EXPECT_GT(ebbtide_phantom_race_count(), 0);
    for (const auto& device : {a, b}) device->Drain();
    const std::int64_t races = ebbtide_phantom_race_count();
    op(*a, memory);  // what the host has waited for is over, whoever waited
    EXPECT_EQ(gpu->waits(), before + 3);
    EXPECT_EQ(ebbtide_phantom_race_count(), races);
    a->Drain();
  });
}

}  // namespace
}  // namespace ebbtide::share
