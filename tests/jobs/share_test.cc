// Mixes from a Request to a Result.
#include "jobs/share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebbtide::jobs {
namespace {

using ::testing::HasSubstr;

ShareRequest TwoOf(const std::string& model, std::int64_t batch) {
  ShareRequest request;
  request.gpu = *FindProfile("v100-16gb");
  ShareJobRequest job;
  job.model.model = model;
  job.model.options.device = model::Device::kCuda;
  job.model.options.batch_size = batch;
  request.jobs = {job, job};
  return request;
}

TEST(Share, JobsThatAreAlikeAreOneTraining) {
  const auto result = Share(TwoOf("resnet18", 4), {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->mix.fits);
  EXPECT_EQ(result->gpu, "v100-16gb");
  EXPECT_EQ(result->mix.jobs[0].training, result->mix.jobs[1].training);
  EXPECT_EQ(result->mix.jobs[0].training->batch, 4);
  EXPECT_TRUE(result->compared.empty());
  EXPECT_FALSE(result->common);
}

TEST(Share, WhatDoesNotFitIsAnAnswer) {
  ShareRequest request = TwoOf("resnet18", 4);
  request.capacity = 100 * kMiB;
  request.compare = true;
  const auto result = Share(request, {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(result->mix.fits);
  EXPECT_THAT(result->mix.reason, HasSubstr("there are 100"));
  EXPECT_EQ(result->compared.size(), share::Baselines().size());
}

TEST(Share, AGraphHasItsOwnBatch) {
  ShareRequest request = TwoOf("resnet18", 4);
  const auto graph = LoadModel(request.jobs[0].model, {});
  ASSERT_TRUE(graph) << graph.error().message;
  for (ShareJobRequest& job : request.jobs) {
    job.model = {};
    job.model.model = "mine";
    job.model.graph = *graph;
  }
  EXPECT_TRUE(Share(request, {}));
  request.jobs[1].batch_given = true;
  request.jobs[1].weight = 2;
  const auto refused = Share(request, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("mine: a graph file has the batch it was captured at"));
}

TEST(Share, StopsWhenAsked) {
  const auto stopped = Share(TwoOf("resnet18", 4), {.stop = [] { return true; }});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::kStopped);
}

}  // namespace
}  // namespace ebbtide::jobs
