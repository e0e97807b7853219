// `estimate` and `fit` as jobs: figures that go together, words that are not known, and jobs that are stopped.
#include "jobs/estimate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "jobs/fit.h"

namespace ebbtide::jobs {
namespace {

ModelRequest Mlp(std::int64_t batch) {
  ModelRequest request;
  request.model = "mlp";
  request.options.device = model::Device::kCuda;
  request.options.batch_size = batch;
  request.given = {"--batch-size"};
  return request;
}

std::string RefusalOf(const TrainingRequest& training, const std::string& model = "mlp") {
  ModelRequest request = Mlp(1);
  request.model = model;
  const auto parsed = ParseTraining(training, request);
  return parsed ? "" : parsed.error().message;
}

TEST(Estimate, TheBreakdownSumsUpToTheTotal) {
  const auto result = Estimate({.model = Mlp(32)}, {});
  ASSERT_TRUE(result) << result.error().message;
  const auto sum = [](const std::vector<Contribution>& parts) {
    return std::accumulate(parts.begin(), parts.end(), Bytes{0},
                           [](Bytes b, const auto& part) { return b + part.bytes; });
  };
  EXPECT_EQ(sum(result->breakdown), result->estimate.total());
  EXPECT_EQ(sum(result->largest_first), result->estimate.total());
  EXPECT_TRUE(std::ranges::is_sorted(result->largest_first, std::greater(), &Contribution::bytes));
  EXPECT_TRUE(result->estimate.fits);
  EXPECT_EQ(result->lacks, 0);
  EXPECT_EQ(result->largest_batch, std::nullopt);
  EXPECT_TRUE(result->notes.empty());
}

// The batch that is told is the one that `fit` finds, and one that fits.
TEST(Estimate, TellsTheLargestBatchWhereItDoesNotFit) {
  DeviceProfile small = FindProfile("a100-40gb").value();
  small.memory = small.context + 256 * kMiB;
  const auto result = Estimate({.model = Mlp(1 << 20), .profile = small}, {});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_FALSE(result->estimate.fits);
  EXPECT_GT(result->lacks, 0);
  ASSERT_TRUE(result->largest_batch);
  ASSERT_GT(*result->largest_batch, 0);
  EXPECT_TRUE(Estimate({.model = Mlp(*result->largest_batch), .profile = small}, {})->estimate.fits);
  EXPECT_FALSE(Estimate({.model = Mlp(*result->largest_batch + 1), .profile = small}, {})->estimate.fits);
  const auto fit = Fit({.model = Mlp(1 << 20), .profiles = {small}}, {});
  ASSERT_TRUE(fit) << fit.error().message;
  EXPECT_EQ(fit->gpus.at(0).max_batch, *result->largest_batch);
  EXPECT_FALSE(fit->gpus.at(0).fits_batch);
  EXPECT_FALSE(fit->found());
}

TEST(Estimate, AGraphInMemoryWithOthersHasALargestBatchToo) {
  DeviceProfile small = FindProfile("a100-40gb").value();
  small.memory = small.context + 256 * kMiB;
  ModelRequest captured;
  captured.model = "captured";
  captured.options.device = model::Device::kCuda;
  captured.graph = LoadModel(Mlp(1 << 20), {}).value();
  EXPECT_EQ(Estimate({.model = captured, .profile = small}, {})->largest_batch, std::nullopt);
  captured.other_graphs = {LoadModel(Mlp(1 << 19), {}).value()};
  const auto made = Estimate({.model = Mlp(1 << 20), .profile = small}, {});
  EXPECT_EQ(Estimate({.model = captured, .profile = small}, {})->largest_batch, made->largest_batch);
}

TEST(Estimate, KernelsOfTheCpuAreANote) {
  ModelRequest request = Mlp(32);
  request.options.device = model::Device::kCpu;
  const auto result = Estimate({.model = request}, {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->notes,
            std::vector<std::string>{"the graph has the kernels of cpu; those of CUDA may save and need other things"});
}

TEST(ParseTraining, PytorchIsTheInstalledVersionOrTheNearestKnown) {
  ModelRequest model;
  model.model = "mlp";
  const auto version = [&](const TrainingRequest& request) {
    const auto training = ParseTraining(request, model);
    return training ? training->version : training.error().message;
  };
  EXPECT_EQ(version({}), "pytorch-2.15");
  EXPECT_EQ(version({.torch = "2.8.0+cu128"}), "pytorch-2.8");
  EXPECT_EQ(version({.framework = "pytorch", .torch = "2.10.0"}), "pytorch-2.10");
  EXPECT_EQ(version({.framework = "pytorch-2.6", .torch = "2.8.0+cu128"}), "pytorch-2.6");
  EXPECT_EQ(version({.torch = "2.99.0"}), "pytorch-2.15");
  EXPECT_EQ(version({.torch = "1.13.1"}), "pytorch-2.15");
  EXPECT_EQ(version({.torch = "2.1.0"}), "pytorch-2.6");
}

TEST(ParseTraining, NamesWhatIsExpected) {
  EXPECT_EQ(RefusalOf({}), "");
  EXPECT_EQ(RefusalOf({}, ""), "expected a MODEL (see ebbtide models)");
  EXPECT_EQ(RefusalOf({.framework = "mxnt"}),
            "--framework: expected pytorch, pytorch-2.6 to pytorch-2.15, mxnet or tensorflow, found mxnt; did you mean "
            "mxnet?");
  EXPECT_EQ(RefusalOf({.framework = "pytorch"}, "a-symbol.json"),
            "--framework pytorch: of no use with a-symbol.json, expected mxnet");
  EXPECT_EQ(RefusalOf({.zero_grad = "never"}), "--zero-grad: expected start, before-backward or end, found never");
  EXPECT_EQ(RefusalOf({.iterations = 1001}), "--iterations: expected 1 to 1000, found 1001");
  EXPECT_EQ(RefusalOf({.pool = "round"}), "--pool: of no use with pytorch, expected --framework mxnet or tensorflow");
  EXPECT_EQ(RefusalOf({.framework = "mxnet", .pool = "fixed"}), "--pool: expected naive or round, found fixed");
  EXPECT_EQ(RefusalOf({.framework = "mxnet", .alloc_conf = "x"}),
            "--alloc-conf: of no use with --framework mxnet, expected --pool");
  EXPECT_EQ(RefusalOf({.framework = "tensorflow", .cublas_workspace = "none"}),
            "--cublas-workspace: of no use with --framework tensorflow");
}

TEST(ParseTraining, FilesHaveTheirFramework) {
  ModelRequest request = Mlp(1);
  request.model = "a-symbol.json";
  EXPECT_EQ(ParseTraining({}, request)->framework, Framework::kMxnet);
  request.model = "a.pb";
  EXPECT_EQ(ParseTraining({}, request)->options.allocator.model.name, "bfc-growth");
}

TEST(Fit, OptionsOfPlansAreForPlans) {
  const FitRequest request{.model = Mlp(8), .gpus = {"a100-40gb"}, .slowdown = 1.5};
  EXPECT_EQ(Fit(request, {}).error().message, "--slowdown: of no use without --with-plan");
  EXPECT_EQ(Fit({.model = Mlp(8), .with_plan = true, .slowdown = 0.5}, {}).error().message,
            "--slowdown: expected a number from 1 to 1000000, found 0.5");
}

TEST(Fit, EndsWhenItIsStopped) {
  std::atomic<int> asked = 0;
  JobContext context;
  context.stop = [&] { return ++asked > 3; };
  const auto fit = Fit({.model = Mlp(8)}, context);
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().kind, ErrorKind::kStopped);
}

}  // namespace
}  // namespace ebbtide::jobs
