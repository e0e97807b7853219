// Traces of jobs on clusters as jobs: policies, errors with their lines, stops.
#include "jobs/cluster.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/jobs/stop_after.h"

namespace ebbtide::jobs {
namespace {

ClusterRequest Of(const std::string& rows) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = testing::TempDir() + "cluster_" + test->name() + ".csv";
  std::ofstream(path) << "arrival,model,batch,work\n" << rows;
  return {.path = path, .nodes = "1x2xt4"};
}

TEST(Cluster, PoliciesComeInTheOrderAskedFor) {
  ClusterRequest request = Of("0,resnet18,8,10\n3,resnet18,8,10\n");
  request.policies = {"fgd", "exclusive"};
  const auto result = Cluster(request, {});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->policies.size(), 2U);
  EXPECT_EQ(result->policies[0].name, "fgd");
  EXPECT_NE(result->Find("exclusive"), nullptr);
  EXPECT_EQ(result->Find("ebbtide"), nullptr);
  EXPECT_EQ(result->workload.kinds.size(), 1U);  // estimated once
}

TEST(Cluster, MemoryThatDiffersIsTheSameForOneSeed) {
  ClusterRequest request = Of("0,resnet18,8,10\n3,resnet18,16,10\n");
  request.memory_error = 0.5;
  const auto memory = [&](std::uint64_t seed) {
    const auto result = Cluster(request, {.seed = seed});
    EXPECT_TRUE(result) << result.error().message;
    return std::vector{result->workload.kinds[0].on[0].memory, result->workload.kinds[1].on[0].memory};
  };
  EXPECT_EQ(memory(1), memory(1));
  EXPECT_NE(memory(1), memory(2));
}

TEST(Cluster, TimesThatAreForetoldWronglyAreOfEachJobAndLeaveTheTruthAlone) {
  ClusterRequest request = Of("0,resnet18,8,10\n3,resnet18,8,10\n");
  const auto right = Cluster(request, {.seed = 1});
  request.time_error = 0.5;
  const auto wrong = Cluster(request, {.seed = 1});
  ASSERT_TRUE(right && wrong);
  for (std::size_t job = 0; job < 2; ++job) {
    EXPECT_EQ(right->workload.jobs[job].foretold, 1);
    EXPECT_EQ(right->workload.jobs[job].work, wrong->workload.jobs[job].work);
    EXPECT_NEAR(wrong->workload.jobs[job].foretold, 1, 0.5);
  }
  EXPECT_NE(wrong->workload.jobs[0].foretold, wrong->workload.jobs[1].foretold);
  request.time_error = 1;
  EXPECT_FALSE(Cluster(request, {}));
}

TEST(Cluster, AModelThatIsNotKnownIsNamedWithItsLine) {
  const auto result = Cluster(Of("0,resnet18,8,10\n1,resnet51,8,10\n"), {});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find(".csv, line 3"), std::string::npos) << result.error().message;
}

TEST(Cluster, AStopIsAnErrorAtAnyMoment) {
  const ClusterRequest request = Of("0,resnet18,8,10\n3,resnet18,16,10\n");
  StopAfter whole(StopAfter::kNever);
  ASSERT_TRUE(Cluster(request, whole.context));
  ASSERT_GT(whole.asked, 0);
  for (std::int64_t least = 0; least < whole.asked; ++least) {
    StopAfter stop(least);
    const auto result = Cluster(request, stop.context);
    ASSERT_FALSE(result) << least;
    EXPECT_EQ(result.error().kind, ErrorKind::kStopped);
  }
}

}  // namespace
}  // namespace ebbtide::jobs
