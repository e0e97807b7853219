// What is predicted is what runs: the scheduler of real steps, with a thread for each job that stands still until it is
// its turn, gives under the simulator's clock the same grants in the same order as the simulator's own run.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "share/scheduler/pool_scheduler.h"
#include "share/simulator/pipeline_scheduler.h"
#include "share/simulator/simulate.h"
#include "tests/share/random_jobs.h"

namespace ebbtide::share::testing {
namespace {

struct Granted {
  std::size_t job = 0;
  std::int64_t iteration = 0;
  int group = 0;
  LaneSpan span;
  bool operator==(const Granted&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Granted& each) {
  return out << "job " << each.job << ", iteration " << each.iteration << ", group " << each.group << ", lane "
             << each.span.lane.value << (each.span.end == LaneEnd::kTop ? ", top" : ", bottom");
}

// Calls that a thread of its own makes, one at a time.
class Caller {
 public:
  Caller() : thread_([this] { Work(); }) {}
  ~Caller() {
    call_ = [this] { over_ = true; };
    busy_ = true;
    busy_.notify_all();
    thread_.join();
  }
  void Post(std::function<void()> call) {
    AwaitIdle();
    call_ = std::move(call);
    busy_ = true;
    busy_.notify_all();
  }
  void AwaitIdle() const { busy_.wait(true); }
  bool idle() const { return !busy_; }

 private:
  void Work() {
    while (!over_) {
      busy_.wait(false);
      call_();
      busy_ = false;
      busy_.notify_all();
    }
  }
  std::function<void()> call_;
  bool over_ = false;
  std::atomic<bool> busy_ = false;
  std::thread thread_;  // after what it uses
};

// A pool's scheduler as steps call it, from as many threads, each of which the simulator waits for.
class RealScheduler : public GroupScheduler {
 public:
  RealScheduler(const RandomJobs& mix, bool runs_ahead)
      : pool_({.pipeline = mix.pipeline,
               .runs_ahead = runs_ahead,
               .on_grant =
                   [this](JobId job, int group, const Grant& grant) {
                     const std::size_t number = number_of_[job.index()];
                     grants.push_back({number, grant.iteration, group, grant.span});
                     members_[number].granted = true;
                   }},
              std::chrono::hours(1)),
        members_(mix.jobs.size()) {
    for (const std::size_t i : JoinOrder(mix.jobs, mix.lanes)) {
      const Result<JobId> id = pool_.Join(ShapeOf(mix.jobs[i], mix.lanes[i]));
      EXPECT_TRUE(id) << id.error().message;
      members_[i].id = *id;
      members_[i].last = static_cast<int>(mix.jobs[i].cut.groups.size()) - 1;
      number_of_.resize(id->index() + 1);
      number_of_[id->index()] = i;
    }
  }
  ~RealScheduler() override {
    for (Member& member : members_) pool_.Stop(member.id);
    for (Member& member : members_) member.caller.AwaitIdle();
  }

  std::optional<Nanos> TryStart(std::size_t job, int group, double) override {
    Member& member = members_[job];
    if (group == 0 && !member.asked) {
      member.asked = true;
      member.caller.Post([this, &member] {
        const auto turn = pool_.TurnsOf(member.id).Begin();
        member.turned_away = !turn;
      });
      AwaitDecision(member);
    }
    if (!member.granted) return std::nullopt;
    member.caller.AwaitIdle();
    EXPECT_FALSE(member.turned_away);
    member.granted = false;
    return Nanos{0};
  }

  void Finished(std::size_t job, int group, double) override {
    Member& member = members_[job];
    run::Turns& turns = pool_.TurnsOf(member.id);
    if (group < member.last) {
      member.caller.Post([&member, &turns, group] {
        const auto height = turns.Next(static_cast<std::size_t>(group) + 1, false);
        member.turned_away = !height;
      });
      return AwaitDecision(member);
    }
    member.caller.Post([&turns] {
      turns.Left();
      turns.End();
    });
    member.caller.AwaitIdle();
    member.asked = false;
  }

  void Rest(std::size_t job) override { pool_.Rest(members_[job].id); }

  std::vector<Granted> grants;

 private:
  struct Member {
    JobId id;
    int last = 0;
    bool asked = false;
    bool turned_away = false;
    std::atomic<bool> granted = false;
    Caller caller;
  };
  void AwaitDecision(const Member& member) const {
    while (!member.granted && !pool_.waits(member.id)) std::this_thread::yield();
  }

  PoolScheduler pool_;
  std::deque<Member> members_;
  std::vector<std::size_t> number_of_;  // by JobId
};

TEST(Agreement, TheSchedulerOfRealStepsGrantsWhatTheSimulatorGrants) {
  std::size_t grants = 0, tops = 0;
  std::int64_t overlapped = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const RandomJobs mix = MakeRandomJobs(seed);
    const TogetherOptions options{.link = mix.link, .warm_up = 1, .iterations = 3};

    std::vector<Granted> expected;
    std::vector<std::size_t> number_of(mix.jobs.size());
    auto simulated = PipelineScheduler::Make(
        mix.jobs, mix.lanes, {.pipeline = mix.pipeline, .on_grant = [&](JobId job, int group, const Grant& grant) {
                                expected.push_back({number_of[job.index()], grant.iteration, group, grant.span});
                              }});
    ASSERT_TRUE(simulated) << simulated.error().message;
    for (std::size_t i = 0; i < mix.jobs.size(); ++i) number_of[simulated->id(i).index()] = i;
    const Together predicted = RunTogether(mix.jobs, *simulated, options);
    ASSERT_FALSE(predicted.stuck);

    RealScheduler real(mix, seed % 2 == 1);
    const Together run = RunTogether(mix.jobs, real, options);
    ASSERT_EQ(real.grants, expected);
    EXPECT_EQ(run.round, predicted.round);
    grants += expected.size();
    tops += static_cast<std::size_t>(
        std::ranges::count(expected, LaneEnd::kTop, [](const Granted& each) { return each.span.end; }));
    overlapped += predicted.overlapped;
  }
  // The mixes are what they are meant to be.
  EXPECT_GT(grants, 20'000u);
  EXPECT_GT(tops, 2'000u);
  EXPECT_GT(overlapped, 2'000);
}

}  // namespace
}  // namespace ebbtide::share::testing
