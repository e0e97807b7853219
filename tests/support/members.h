// Several random steps that share a pool, each in a thread of its own, and the same steps without a plan, one after
// another: contents, random numbers and memory are compared.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "run/device/pool_holdings.h"
#include "run/engine/engine.h"
#include "run/engine/own_random.h"
#include "share/scheduler/pool_scheduler.h"
#include "tests/support/fake_runner.h"
#include "tests/support/shared_cases.h"

namespace ebbtide::share {

inline constexpr Bytes kAlignment = 8;  // of the random steps

inline JobShape ShapeOf(const run::SharedCase& shared, int number) {
  JobShape out;
  out.name = "job " + std::to_string(number);
  out.persistent = shared.state;
  out.lane = 0;
  for (const run::GroupHeights& each : run::HeightsOf(shared)) out.groups.push_back({each.peak, each.after});
  return out;
}

inline Bytes PeakOf(const JobShape& shape) {
  Bytes out = 0;
  for (const GroupShape& group : shape.groups) out = std::max(out, RoundUp(group.peak, kAlignment));
  return out;
}

// Runner: what runs ops. `content` gives the memory behind an address of the device, as the test may read it.
template <class Runner>
class Member {
 public:
  using Content = std::byte* (*)(const void* address, Bytes bytes);

  Member(const run::SharedCase& shared, int number, std::shared_ptr<run::Device> device, Runner& runner,
         Content content)
      : shared_(shared),
        graph_(shared.task->graph),
        shape_(ShapeOf(shared, number)),
        device_(std::move(device)),
        runner_(runner),
        own_random_(runner_, graph_),
        plain_runner_(graph_),
        plain_(graph_),
        content_(content) {
    Result<std::unique_ptr<run::Engine>> made = run::Engine::Make(graph_, *shared.plan, device_, own_random_);
    if (!made) ADD_FAILURE() << made.error().message;
    engine_ = *std::move(made);
  }

  const JobShape& shape() const { return shape_; }
  JobId job() const { return job_; }

  void Join(PoolScheduler& scheduler) {
    const Result<JobId> job = scheduler.Join(shape_);
    ASSERT_TRUE(job) << job.error().message;
    job_ = *job;
    scheduler_ = &scheduler;
    state_ = scheduler.StateAddress(job_);
    ASSERT_TRUE(device_->Hold(state_, shared_.state));
    const Status placed = engine_->PlaceIn({.state = state_, .state_bytes = shared_.state, .groups = shared_.groups});
    ASSERT_TRUE(placed) << placed.error().message;
    for (const StorageId s : Ids<StorageId>(graph_.storages.size())) {
      if (!IsState(s)) continue;
      own_random_.Bind(s, device_->At(engine_->home()[s]));
      ASSERT_TRUE(device_->Write(plain_.of(s).data(), engine_->home()[s], graph_.storage(s).bytes));
    }
  }

  void Leave() {
    device_->Drain();
    device_->LetGo(state_);
    scheduler_->Leave(job_);
  }

  // Takes one step and, if that succeeds, the same step without a plan. False: it was interrupted, and nothing has
  // changed.
  bool Step(double scalar) {
    run::StepCall call{.scalars = {scalar},
                       .interrupted = [this] { return scheduler_->stopped(job_); },
                       .turns = &scheduler_->TurnsOf(job_)};
    for (const StorageId s : Ids<StorageId>(graph_.storages.size())) {
      if (graph_.storage(s).kind == StorageKind::kInput)
        call.inputs.push_back({s, 0, plain_.of(s).data(), graph_.storage(s).bytes});
    }
    const auto report = engine_->Step(call);
    if (report) {
      plain_.Step(plain_runner_, std::vector<double>{scalar});
    } else {
      EXPECT_EQ(report.error().kind, run::Failure::Kind::kInterrupted) << report.error().message;
    }
    return report.has_value();
  }

  void ExpectSame() {
    for (const StorageId s : Ids<StorageId>(graph_.storages.size())) {
      if (!IsState(s) || graph_.storage(s).kind == StorageKind::kInput || graph_.storage(s).bytes == 0) continue;
      const std::byte* const at = content_(device_->At(engine_->home()[s]), graph_.storage(s).bytes);
      EXPECT_TRUE(std::ranges::equal(plain_.of(s), std::span(at, at + graph_.storage(s).bytes)))
          << shape_.name << ", state " << s.value;
    }
    std::uint64_t ours = 0, plain = 0;
    own_random_.SaveRandom(reinterpret_cast<std::byte*>(&ours));
    plain_runner_.SaveRandom(reinterpret_cast<std::byte*>(&plain));
    EXPECT_EQ(ours, plain) << shape_.name;
  }

 private:
  bool IsState(StorageId s) const {
    const Bytes home = engine_->home()[s];
    return home >= state_ && home < state_ + shared_.state;
  }

  const run::SharedCase& shared_;
  const TrainingGraph& graph_;
  const JobShape shape_;
  const std::shared_ptr<run::Device> device_;
  Runner& runner_;
  run::OwnRandom own_random_;
  run::FakeRunner plain_runner_;
  run::PlainMemory plain_;
  const Content content_;
  std::unique_ptr<run::Engine> engine_;
  PoolScheduler* scheduler_ = nullptr;
  JobId job_;
  Bytes state_ = 0;
};

// As many cases as were asked for that have plans, from `seed` on.
inline std::vector<run::SharedCase> SomeCases(int count, int seed) {
  std::vector<run::SharedCase> out;
  for (; static_cast<int>(out.size()) < count; ++seed) {
    run::SharedCase shared = run::RandomSharedCase(seed, 6);
    if (shared.plan) out.push_back(std::move(shared));
  }
  return out;
}

// Room for all states, the largest iteration, and `more` (0 to 1) of the next largest beside it.
template <class Members>
Bytes CapacityFor(const Members& members, double more) {
  Bytes states = 0;
  std::vector<Bytes> peaks;
  for (const auto& member : members) {
    states += RoundUp(member->shape().persistent, kAlignment);
    peaks.push_back(PeakOf(member->shape()));
  }
  std::ranges::sort(peaks, std::greater());
  const Bytes second = peaks.size() > 1 ? static_cast<Bytes>(more * static_cast<double>(peaks[1])) : 0;
  return states + std::max(peaks[0], kAlignment) + RoundUp(second, kAlignment);
}

// Each member takes `steps` steps in a thread of its own.
template <class Members>
void RunAll(Members& members, int steps, const std::function<void(int)>& before = {}) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < members.size(); ++i) {
    threads.emplace_back([&, i] {
      if (before) before(static_cast<int>(i));
      for (int step = 1; step <= steps; ++step) EXPECT_TRUE(members[i]->Step(step));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ebbtide::share
