// The simulation by events: by hand, by laws on random clusters, and beside one that goes on second by second.
#include "cluster/simulate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

namespace ebbtide::cluster {
namespace {

Hardware OneNode(int gpus, Bytes memory) {
  return {.types = {{.name = "gpu", .memory = memory}}, .nodes = {{.type = 0, .gpus = gpus}}};
}

Kind KindOf(Bytes memory, double kernels, double share = 1) {
  OnGpu on{.memory = memory, .estimate = memory, .reserve = memory, .speed = 1, .kernels = kernels, .gpu_share = share};
  Kind kind;
  kind.name = "kind";
  kind.on = {on};
  return kind;
}

Outcome RunPolicy(const char* name, const Hardware& hardware, const Workload& workload) {
  return Simulate(hardware, workload, *FindPolicy(name)->make(hardware, workload));
}

TEST(Simulate, ExclusiveRunsOneAfterTheOther) {
  const Workload workload{.kinds = {KindOf(kGiB, 0.5)},
                          .jobs = {{"a", 0, 0, 100}, {"b", 0, 10, 100}, {"c", 0, 20, 50}}};
  const Outcome out = RunPolicy("exclusive", OneNode(1, 8 * kGiB), workload);
  EXPECT_NEAR(out.makespan, 250, 1e-6);
  EXPECT_NEAR(out.mean_wait, (0 + 90 + 180) / 3.0, 1e-6);
  EXPECT_NEAR(out.utilisation, 0.5, 1e-9);
  EXPECT_EQ(out.oom, 0);
}

TEST(Simulate, SmallJobsShareAGpuWithoutLoss) {
  const Workload workload{.kinds = {KindOf(kGiB, 1, 0.25)}, .jobs = {{"a", 0, 0, 100}, {"b", 0, 0, 100}}};
  EXPECT_NEAR(RunPolicy("ebbtide", OneNode(1, 8 * kGiB), workload).makespan, 100, 1e-6);
}

TEST(Simulate, WhoTakesMoreThanIsDeclaredIsOutOfMemoryAndRunsAgainAlone) {
  Workload workload{.kinds = {KindOf(6 * kGiB, 0.1)}, .jobs = {{"a", 0, 0, 100}}};
  const Outcome out = RunPolicy("mps", OneNode(1, 8 * kGiB), workload);  // half of 8 GiB is its limit
  EXPECT_EQ(out.oom, 1);
  EXPECT_EQ(out.ended, 1);
  EXPECT_NEAR(out.makespan, 60 + 100, 1e-6);
  ASSERT_EQ(out.runs.size(), 2U);
  EXPECT_TRUE(out.runs[0].oom);
}

TEST(Simulate, WhatFitsNoGpuIsRefusedBeforeItStarts) {
  const Workload workload{.kinds = {KindOf(9 * kGiB, 1)}, .jobs = {{"a", 0, 0, 100}}};
  const Outcome ours = RunPolicy("ebbtide", OneNode(1, 8 * kGiB), workload);
  EXPECT_EQ(std::tuple(ours.oom, ours.refused, ours.ended), std::tuple(0, 1, 0));
  const Outcome exclusive = RunPolicy("exclusive", OneNode(1, 8 * kGiB), workload);
  EXPECT_EQ(std::tuple(exclusive.oom, exclusive.refused, exclusive.ended), std::tuple(1, 1, 0));
}

// Small jobs come without end; a large one must not wait for all of them.
TEST(Simulate, ALargeJobDoesNotStarve) {
  Workload workload{.kinds = {KindOf(3 * kGiB, 0.2), KindOf(8 * kGiB, 1)}, .jobs = {}};
  for (int i = 0; i < 200; ++i) workload.jobs.push_back({"small", 0, 10.0 * i, 100});
  workload.jobs.insert(workload.jobs.begin() + 5, {"large", 1, 45, 100});
  const Outcome out = RunPolicy("ebbtide", OneNode(1, 8 * kGiB), workload);
  for (const auto& run : out.runs) {
    if (workload.jobs[run.job].name != "large") continue;
    EXPECT_LT(run.begin, 400);
  }
  EXPECT_EQ(out.ended, 201);
}

// ---- Random clusters
struct Case {
  Hardware hardware;
  Workload workload;
};
Case RandomCase(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upto = [&](std::uint64_t n) { return random() % n; };
  Case out;
  out.hardware.types = {{"large", 16 * kGiB}, {"small", 8 * kGiB}};
  for (std::uint64_t i = 0; i < 1 + upto(3); ++i) {
    out.hardware.nodes.push_back({.type = upto(2), .gpus = static_cast<int>(1 + upto(3))});
  }
  for (int k = 0; k < 4; ++k) {
    Kind kind = KindOf(static_cast<Bytes>(1 + upto(9)) * kGiB, 0.05 * static_cast<double>(1 + upto(20)),
                       0.05 * static_cast<double>(1 + upto(20)));
    // Predictions are right, too high or, one in four, too low: then policies that go by them may fail.
    const Bytes memory = kind.on[0].memory;
    kind.on[0].estimate = upto(4) == 0 ? memory * 3 / 4 : memory;
    kind.on[0].reserve = kind.on[0].estimate + kGiB / 2;
    if (upto(2) == 0) kind.declared = memory - kGiB / 2 + static_cast<Bytes>(upto(2)) * kGiB;
    kind.gpus = static_cast<int>(1 + upto(5) / 4);
    kind.on.push_back(kind.on[0]);
    out.workload.kinds.push_back(kind);
  }
  double at = 0;
  for (std::uint64_t i = 0; i < 5 + upto(30); ++i) {
    at += static_cast<double>(upto(40));
    out.workload.jobs.push_back({"job", upto(4), at, static_cast<double>(10 + upto(90))});
  }
  return out;
}

// What the runs say, looked at apart from the simulator: memory of a GPU, and work that was done in the time.
void CheckRuns(const Case& of, const Outcome& out, const char* policy) {
  std::map<std::size_t, std::size_t> types;
  std::size_t next = 0;
  for (const Node& node : of.hardware.nodes) {
    for (int i = 0; i < node.gpus; ++i) types[next++] = node.type;
  }
  std::vector<int> ended(of.workload.jobs.size(), 0);
  std::int64_t oom = 0;
  for (const auto& run : out.runs) {
    oom += run.oom ? 1 : 0;
    const Job& job = of.workload.jobs[run.job];
    EXPECT_GE(run.begin, job.arrival);
    EXPECT_EQ(run.gpus.size(), static_cast<std::size_t>(of.workload.kinds[job.kind].gpus));
    if (run.oom) continue;
    ++ended[run.job];
    EXPECT_GE(run.end - run.begin, job.work - 1e-6) << policy;  // nobody is faster than alone
    for (const std::size_t gpu : run.gpus) {
      Bytes taken = 0;
      for (const auto& other : out.runs) {
        const bool there = !other.oom && other.begin <= run.begin && run.begin < other.end;
        if (there && std::ranges::find(other.gpus, gpu) != other.gpus.end()) {
          taken += of.workload.kinds[of.workload.jobs[other.job].kind].on[types[gpu]].memory;
        }
      }
      EXPECT_LE(taken, of.hardware.types[types[gpu]].memory) << policy;
    }
  }
  EXPECT_EQ(oom, out.oom);
  std::int64_t ends = 0;
  for (const int count : ended) {
    EXPECT_LE(count, 1);
    ends += count;
  }
  EXPECT_EQ(ends, out.ended);
  EXPECT_EQ(out.ended + out.refused + out.waiting, static_cast<std::int64_t>(of.workload.jobs.size())) << policy;
}

TEST(Simulate, LawsOnRandomClusters) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Case of = RandomCase(seed);
    for (const PolicyRow& row : Policies()) {
      const auto policy = row.make(of.hardware, of.workload);
      const Outcome out = Simulate(of.hardware, of.workload, *policy);
      CheckRuns(of, out, std::string(row.name).c_str());
      const Outcome again = Simulate(of.hardware, of.workload, *row.make(of.hardware, of.workload));
      EXPECT_EQ(out.makespan, again.makespan);
    }
  }
}

TEST(Simulate, WithReservesThatAreEnoughNobodyOfOursIsOutOfMemory) {
  for (std::uint64_t seed = 100; seed < 160; ++seed) {
    Case of = RandomCase(seed);
    for (Kind& kind : of.workload.kinds) {
      for (OnGpu& on : kind.on) on.estimate = on.memory, on.reserve = on.memory + kGiB / 4;
    }
    for (const char* policy : {"best-fit", "fgd", "ebbtide"}) {
      EXPECT_EQ(RunPolicy(policy, of.hardware, of.workload).oom, 0) << policy << " " << seed;
    }
  }
}

// Where all jobs are there from the beginning and times are predicted rightly, what the best way promises is kept: no
// way by itself ends sooner.
TEST(Simulate, OfItsWaysOursTakesTheBest) {
  int better = 0;
  for (std::uint64_t seed = 300; seed < 340; ++seed) {
    Case of = RandomCase(seed);
    for (Job& job : of.workload.jobs) job.arrival = 0;
    for (Kind& kind : of.workload.kinds) {
      for (OnGpu& on : kind.on) on.estimate = on.memory, on.reserve = on.memory;
    }
    const auto policy = FindPolicy("ebbtide")->make(of.hardware, of.workload);
    const double ours = Simulate(of.hardware, of.workload, *policy).makespan;
    double worst = 0;
    for (Policy* way : policy->Ways()) {
      const double alone = Simulate(of.hardware, of.workload, *way).makespan;
      worst = std::max(worst, alone);
      EXPECT_LE(ours, alone + 1e-6) << seed;
    }
    better += ours < worst - 1 ? 1 : 0;
  }
  EXPECT_GT(better, 10);  // there is something to choose
}

// Times that are predicted wrongly cost time, and nothing else.
TEST(Simulate, WrongPredictionsOfTimeLoseNoJob) {
  for (std::uint64_t seed = 400; seed < 440; ++seed) {
    Case of = RandomCase(seed);
    std::mt19937_64 random(seed);
    for (Job& job : of.workload.jobs) job.foretold = 0.5 + static_cast<double>(random() % 100) / 100;
    CheckRuns(of, RunPolicy("ebbtide", of.hardware, of.workload), "ebbtide");
  }
}

// The same jobs at the same places from the same moments, their speeds followed in small steps: each ends where the
// events have it end.
TEST(Simulate, AgreesWithSmallSteps) {
  constexpr double kStep = 0.01;
  for (std::uint64_t seed = 200; seed < 206; ++seed) {
    Case of = RandomCase(seed);
    for (Kind& kind : of.workload.kinds) kind.gpus = 1;
    const Outcome out = RunPolicy("ebbtide", of.hardware, of.workload);
    std::vector<double> left;
    for (const auto& run : out.runs) left.push_back(run.oom ? 0 : of.workload.jobs[run.job].work);
    std::vector<double> ends(out.runs.size(), 0);
    double last = 0;
    for (const auto& run : out.runs) last = std::max(last, run.end);
    for (double now = 0; now < last + 5; now += kStep) {
      std::map<std::size_t, std::vector<std::size_t>> on;
      for (std::size_t i = 0; i < out.runs.size(); ++i) {
        if (out.runs[i].begin <= now && left[i] > 0) on[out.runs[i].gpus[0]].push_back(i);
      }
      for (const auto& [gpu, runs] : on) {
        std::vector<GpuUser> users;
        for (const std::size_t i : runs) {
          const OnGpu& use = of.workload.kinds[of.workload.jobs[out.runs[i].job].kind].on[0];
          users.push_back({use.kernels, use.gpu_share});
        }
        const std::vector<double> rates = Rates(users);
        for (std::size_t k = 0; k < runs.size(); ++k) {
          left[runs[k]] -= rates[k] * kStep;
          if (left[runs[k]] <= 0) ends[runs[k]] = now + kStep;
        }
      }
    }
    for (std::size_t i = 0; i < out.runs.size(); ++i) {
      if (out.runs[i].oom) continue;
      EXPECT_NEAR(ends[i], out.runs[i].end, 1.0) << seed;
    }
  }
}

}  // namespace
}  // namespace ebbtide::cluster
