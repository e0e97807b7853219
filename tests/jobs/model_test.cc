// Every kind of MODEL: what is refused, and with which message.
#include "jobs/model.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace ebbtide::jobs {
namespace {

ModelRequest Asking(const std::string& model, std::set<std::string> given = {}) {
  ModelRequest request;
  request.model = model;
  request.given = std::move(given);
  return request;
}

// A small step of PyTorch's, as if a file had it.
std::shared_ptr<const TrainingGraph> Step(std::int64_t batch = 2) {
  ModelRequest request = Asking("mlp", {"--batch-size", "--widths"});
  request.options.batch_size = batch;
  request.options.widths = {8, 4};
  return LoadModel(request, {}).value();
}

std::string Refusal(const ModelRequest& request) {
  const Status status = CheckModel(request);
  return status ? "" : status.error().message;
}

TEST(CheckModel, WantsAModel) { EXPECT_EQ(Refusal(Asking("")), "expected a MODEL (see ebbtide models)"); }

TEST(CheckModel, AScriptMakesItsOwnStep) {
  EXPECT_EQ(Refusal(Asking("train.py:step", {"--batch-size", "--optimizer"})), "");
  EXPECT_EQ(Refusal(Asking("train.py:step", {"--widths"})),
            "--widths: of no use with train.py:step, a function that makes its own layers");
  EXPECT_EQ(Refusal(Asking("train.py:step", {"--assume-elementwise"})),
            "--assume-elementwise: of no use with train.py:step, whose operators PyTorch knows");
  EXPECT_EQ(Refusal(Asking("train.py:step", {"--lora"})),
            "--lora: of no use with train.py:step, a function that makes its own step");
}

TEST(CheckModel, AGraphIsFixed) {
  for (const char* name : {"step.json", "step.json.gz", "layers.txt"}) {
    const std::string model = ::testing::TempDir() + name;
    std::ofstream(model) << "{}";
    for (const char* flag : {"--batch-size", "--optimizer", "--device", "--checkpoint", "--assume-elementwise"}) {
      EXPECT_EQ(Refusal(Asking(model, {flag})),
                fmt::format("{}: of no use with {}, a graph whose shapes and optimizer are fixed", flag, model));
    }
    EXPECT_EQ(Refusal(Asking(model)), "");
    std::remove(model.c_str());
  }
  EXPECT_EQ(Refusal(Asking("none/config.json", {"--lora"})), "none/config.json: no such file");
  ModelRequest in_memory = Asking("MyModel", {"--seq-len"});
  in_memory.graph = Step();
  EXPECT_EQ(Refusal(in_memory), "--seq-len: of no use with MyModel, a graph whose shapes and optimizer are fixed");
}

TEST(CheckModel, FilesOfOthersHaveTheirOwnLayers) {
  for (const char* model : {"a.onnx", "a-symbol.json", "a.pb"}) {
    EXPECT_EQ(Refusal(Asking(model, {"--widths"})),
              fmt::format("--widths: of no use with {}, which has its own layers", model));
    EXPECT_EQ(Refusal(Asking(model, {"--lora"})),
              fmt::format("--lora: of no use with {}, whose linear layers have no names of their own", model));
    EXPECT_EQ(Refusal(Asking(model, {"--batch-size", "--optimizer", "--assume-elementwise"})), "");
  }
}

TEST(CheckModel, OperatorsOfBuiltInModelsAreKnown) {
  EXPECT_EQ(Refusal(Asking("resnet50", {"--assume-elementwise"})),
            "--assume-elementwise: of no use with resnet50, whose operators are all known");
}

TEST(CheckModel, OptionsThatContradictEachOther) {
  ModelRequest request = Asking("mlp", {"--optimizer"});
  request.options.optimizer = "adamm";
  EXPECT_NE(Refusal(request).find("found adamm; did you mean adam"), std::string::npos) << Refusal(request);
  request.options.optimizer = "adam";
  request.options.inference = true;
  EXPECT_EQ(Refusal(request), "--optimizer: of no use with --inference, which updates nothing");
  request.given = {"--freeze"};
  EXPECT_EQ(Refusal(request), "--freeze: of no use with --inference, which trains nothing");
  request = Asking("mlp", {"--lora-targets"});
  request.options.lora_targets = {"fc*"};
  EXPECT_EQ(Refusal(request), "--lora-targets: expected --lora, the rank of the adapters, beside it");
}

TEST(LoadModel, AScriptNeedsSomebodyWhoCaptures) {
  const auto graph = LoadModel(Asking("train.py:step"), {});
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().kind, ErrorKind::kCapture);
  EXPECT_EQ(graph.error().message, "train.py:step: a function of a script is captured first (ebbtide capture)");
}

TEST(LoadModel, AGraphInMemoryIsNotCopied) {
  ModelRequest request = Asking("MyModel");
  request.graph = Step();
  EXPECT_EQ(LoadModel(request, {}).value(), request.graph);
}

// Gives what it was given, and counts.
class FakeCapturer : public Capturer {
 public:
  Result<TrainingGraph> Capture(const ModelRequest& /*request*/) override { return ++captures, *Step(2); }
  Result<std::vector<TrainingGraph>> CaptureBatches(const ModelRequest& /*request*/) override {
    ++captures;
    return std::vector<TrainingGraph>{*Step(2), *Step(3), *Step(5)};
  }
  int captures = 0;
};

TEST(AnyBatchModel, ThreeCapturesOfAScriptTellAllBatches) {
  FakeCapturer capturer;
  JobContext context;
  context.capturer = &capturer;
  EXPECT_EQ(*LoadModel(Asking("train.py:step"), context).value(), *Step(2));
  const AnyBatchModel model = AnyBatchModel::Open(Asking("train.py:step"), context).value();
  EXPECT_EQ(model.At(40).value(), *Step(40));
  EXPECT_EQ(model.At(50).value(), *Step(50));
  EXPECT_EQ(capturer.captures, 2);
}

TEST(AnyBatchModel, AGraphHasOthersBesideIt) {
  ModelRequest request = Asking("MyModel");
  request.graph = Step(2);
  EXPECT_FALSE(AnyBatchModel::IsPossible(request));
  EXPECT_EQ(AnyBatchModel::Open(request, {}).error().message,
            "MyModel: expected --other-batch FILE, a capture of the same step at another batch");
  request.other_graphs = {Step(3)};
  const AnyBatchModel model = AnyBatchModel::Open(request, {}).value();
  EXPECT_EQ(model.captured_batch(), 2);
  EXPECT_EQ(model.At(7).value(), *Step(7));
  request.given = {"--batch-size"};  // all that can be chosen
  EXPECT_TRUE(AnyBatchModel::Open(request, {}));
  request.given = {"--optimizer"};
  EXPECT_EQ(AnyBatchModel::Open(request, {}).error().message,
            "--optimizer: of no use with MyModel, a graph whose optimizer and shapes are fixed");
}

TEST(AnyBatchModel, OtherBatchesAreForGraphs) {
  ModelRequest request = Asking("mlp");
  request.other_batches = {"other.json"};
  EXPECT_EQ(AnyBatchModel::Open(request, {}).error().message,
            "--other-batch: of no use with mlp, which can be made for any batch");
}

}  // namespace
}  // namespace ebbtide::jobs
