// Against MXNet itself: tests/fixtures/mxnet_fixtures.py asked its executors, `make fixtures` does so again.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "estimate/estimate.h"
#include "estimate/mxnet_plan.h"
#include "estimate/mxnet_training.h"
#include "graph/summary.h"
#include "model/model.h"
#include "tests/frameworks/translated.h"
#include "tests/support/folders.h"

namespace ebbtide {
namespace {

const std::string kFixtures = SourceFolder() / "tests/fixtures/mxnet/";

struct Reported {
  std::string model;
  model::ModelOptions options;
  std::int64_t parameters = 0, allocated_mib = 0, operators = 0;
};

std::vector<Reported> AllReported() {
  const Result<std::string> text = ReadFile(kFixtures + "reported.json", kMiB);
  std::vector<Reported> rows;
  for (const auto& row : nlohmann::json::parse(text.value())) {
    Reported reported{.model = row["model"],
                      .options = {},
                      .parameters = row["parameters"],
                      .allocated_mib = row["allocated_mib"],
                      .operators = row["operators"]};
    reported.options.batch_size = row["batch"];
    if (row["image_size"] > 0) reported.options.image_size = row["image_size"].get<std::int64_t>();
    rows.push_back(reported);
  }
  return rows;
}

TrainingGraph Load(const Reported& reported) {
  Result<TrainingGraph> graph = model::LoadModel(kFixtures + reported.model + "-symbol.json.gz", reported.options);
  EXPECT_TRUE(graph.has_value()) << (graph ? "" : graph.error().message);
  return graph.value_or(TrainingGraph());
}

TEST(MxnetFixtureTest, ParametersAreMxnets) {
  for (const Reported& reported : AllReported()) {
    EXPECT_EQ(Summarize(Load(reported)).parameters, reported.parameters) << reported.model;
  }
}

TEST(MxnetFixtureTest, TheGradientHasAsManyOperators) {
  for (const Reported& reported : AllReported()) {
    std::int64_t operators = 0;
    for (const Op& op : Load(reported).ops) operators += op.phase != Phase::kUpdate;
    EXPECT_EQ(operators, reported.operators) << reported.model;
  }
}

// MXNet tells whole MiB, rounded down.
TEST(MxnetFixtureTest, ThePlanIsMxnets) {
  ASSERT_GE(AllReported().size(), 24u);
  for (const Reported& reported : AllReported()) {
    EXPECT_EQ(estimate::PlanMxnet(Load(reported)).total() / kMiB, reported.allocated_mib)
        << reported.model << " at batch " << reported.options.batch_size;
  }
}

// Torchvision's and gluon's VGG16 are one network but for a pooling that changes nothing.
TEST(MxnetTranslationTest, ABuiltInVggIsGluons) {
  Reported reported{.model = "vgg16", .options = {}};
  reported.options.batch_size = 8;
  const TrainingGraph gluon = Load(reported);
  reported.options.framework = Framework::kMxnet;
  const Result<TrainingGraph> ours = model::LoadModel("vgg16", reported.options);
  ASSERT_TRUE(ours.has_value()) << ours.error().message;
  EXPECT_EQ(Summarize(*ours).parameters, Summarize(gluon).parameters);
  EXPECT_EQ(estimate::PlanMxnet(*ours).total() / kMiB, estimate::PlanMxnet(gluon).total() / kMiB);
}

TEST(MxnetTranslationTest, ModelsOfMxnetsZoo) {
  ExpectTranslated({"alexnet", "vgg16", "resnet50", "mobilenet_v2", "densenet121", "lstm"}, Framework::kMxnet);
}

// Which has no auxiliary classifier.
TEST(MxnetTranslationTest, ABuiltInInceptionIsGluons) {
  Reported reported{.model = "inception_v3", .options = {}};
  reported.options.batch_size = 8;
  reported.options.image_size = 299;
  const TrainingGraph gluon = Load(reported);
  reported.options.framework = Framework::kMxnet;
  const Result<TrainingGraph> ours = model::LoadModel("inception_v3", reported.options);
  ASSERT_TRUE(ours.has_value()) << ours.error().message;
  EXPECT_EQ(Summarize(*ours).parameters, Summarize(gluon).parameters);
}

// At so small a batch the search for ways to convolve takes less than the state that comes after it.
TEST(MxnetEstimateTest, ArraysPoolsAndStateAreAllThatIsAskedFor) {
  Reported reported{.model = "vgg16", .options = {}};
  reported.options.batch_size = 2;
  reported.options.optimizer = "adam";
  const TrainingGraph graph = Load(reported);
  estimate::Options options;
  options.gpu.memory = 64 * kGiB;
  options.allocator = alloc::ChooseAllocator("mxnet-naive", "").value();
  const estimate::Estimate estimate = estimate::EstimateTraining(graph, options);
  ASSERT_TRUE(estimate.fits);
  const Bytes weights = 4 * 138357544;
  const Bytes input = 2 * 3 * 224 * 224 * 4 + 2 * 4;
  const Bytes asked =
      4 * weights + input + estimate::PlanMxnet(graph).total() + estimate::MxnetTemporarySpace(graph, options.gpu);
  EXPECT_EQ(estimate.at_peak.requested(), asked);
  EXPECT_GE(estimate.peak_reserved, asked);
  // At most 2 MiB are lost for each block.
  EXPECT_LT(estimate.peak_reserved, asked + 200 * 2 * kMiB);
}

// The search runs on tensors of cuDNN's own. VGG16's second convolution has two of 128 x 64 x 224 x 224 x 4 =
// 1,644,167,168 B and a filter of 147,456; of its ways only the table of offsets, 6 x 224 x 224 = 301,056 B, is within
// MXNet's 1 GiB.
TEST(MxnetEstimateTest, TheFirstStepTriesOutWaysToConvolve) {
  Reported reported{.model = "vgg16", .options = {}};
  reported.options.batch_size = 128;
  estimate::Options options;
  options.gpu = FindProfile("p100").value();
  options.gpu.memory = 24 * kGiB;
  options.allocator = alloc::ChooseAllocator("mxnet-naive", "").value();
  const estimate::Estimate estimate = estimate::EstimateTraining(Load(reported), options);
  ASSERT_TRUE(estimate.fits);
  EXPECT_EQ(estimate.at_peak.by_category[static_cast<std::size_t>(estimate::Category::kWorkspace)],
            2 * Bytes{1'644'167'168} + 147'456 + 301'056);
  options.gpu.memory = 12 * kGiB;  // no room for the search, which is no harm
  const estimate::Estimate tight = estimate::EstimateTraining(Load(reported), options);
  EXPECT_TRUE(tight.fits);
  EXPECT_LT(tight.peak_reserved, estimate.peak_reserved);
}

}  // namespace
}  // namespace ebbtide
