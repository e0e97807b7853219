// Real threads on the CPU's device: every step gives what it gives alone, whoever is beside it, stops or leaves.
#include "share/scheduler/pool_scheduler.h"

#include "run/device/cpu_device.h"
#include "tests/support/members.h"

namespace ebbtide::share {
namespace {

std::byte* Itself(const void* address, Bytes) { return static_cast<std::byte*>(const_cast<void*>(address)); }

struct Jobs {
  Jobs(const std::vector<run::SharedCase>& cases, double more) {
    Bytes capacity = 0;
    for (const run::SharedCase& shared : cases) capacity += 2 * shared.plan->peak + 64;
    pool = *run::MakeCpuDevice({.capacity = capacity});
    for (std::size_t i = 0; i < cases.size(); ++i) {
      runners.push_back(std::make_unique<run::FakeRunner>(cases[i].task->graph));
      members.push_back(std::make_unique<Member<run::FakeRunner>>(cases[i], static_cast<int>(i), *pool->Beside(),
                                                                  *runners.back(), &Itself));
    }
    scheduler = std::make_unique<PoolScheduler>(
        DispatcherOptions{.pipeline = {.capacity = CapacityFor(members, more), .alignment = kAlignment}});
  }
  std::shared_ptr<run::Device> pool;
  std::vector<std::unique_ptr<run::FakeRunner>> runners;
  std::vector<std::unique_ptr<Member<run::FakeRunner>>> members;
  std::unique_ptr<PoolScheduler> scheduler;
};

TEST(PoolScheduler, EveryStepGivesWhatItGivesAlone) {
  std::int64_t groups = 0, overlapped = 0;
  for (int round = 0; round < plan::Cases(40); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    const std::vector<run::SharedCase> cases = SomeCases(2 + round % 3, round * 10);
    Jobs jobs(cases, 0.25 * (round % 5));
    for (auto& member : jobs.members) member->Join(*jobs.scheduler);
    if (testing::Test::HasFailure()) return;
    RunAll(jobs.members, 5);
    for (auto& member : jobs.members) member->ExpectSame();
    for (auto& member : jobs.members) member->Leave();
    EXPECT_EQ(jobs.pool->holdings()->held(), 0);
    groups += jobs.scheduler->counts().groups;
    overlapped += jobs.scheduler->counts().overlapped;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(groups, 500);
  EXPECT_GT(overlapped, 0);
}

// One of four is stopped at a random moment, again and again: it has changed nothing then, and the others go on.
TEST(PoolScheduler, AStoppedJobGivesItsMemoryBackAndTheRestGoOn) {
  const std::vector<run::SharedCase> cases = SomeCases(4, 100);
  Jobs jobs(cases, 0.5);
  for (auto& member : jobs.members) member->Join(*jobs.scheduler);
  if (testing::Test::HasFailure()) return;
  const int stops = plan::Cases(100);
  int stopped = 0;
  std::atomic<bool> over = false;
  std::vector<std::thread> others;
  std::vector<int> taken(4, 0);
  for (std::size_t i = 1; i < 4; ++i) {
    others.emplace_back([&, i] {
      while (!over) EXPECT_TRUE(jobs.members[i]->Step(++taken[i]));
    });
  }
  std::mt19937_64 random(5);
  for (int n = 0; n < stops; ++n) {
    const JobId job = jobs.members[0]->job();
    std::thread stopper([&, wait = random() % 300] {
      std::this_thread::sleep_for(std::chrono::microseconds(wait));
      jobs.scheduler->Stop(job);
    });
    for (int step = 1; jobs.members[0]->Step(step); ++step) {
    }
    stopper.join();
    ++stopped;
    jobs.members[0]->ExpectSame();
    if (n % 3 == 0) {  // it goes, and comes back
      jobs.members[0]->Leave();
      jobs.members[0]->Join(*jobs.scheduler);
    } else {
      jobs.scheduler->Resume(job);
    }
    if (testing::Test::HasFailure()) break;
  }
  over = true;
  for (std::thread& thread : others) thread.join();
  for (auto& member : jobs.members) member->ExpectSame();
  for (auto& member : jobs.members) member->Leave();
  EXPECT_EQ(jobs.pool->holdings()->held(), 0);
  EXPECT_EQ(stopped, stops);
  plan::Tell(stopped, "stops");
}

}  // namespace
}  // namespace ebbtide::share
