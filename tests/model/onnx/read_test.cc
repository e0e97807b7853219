// Files on disk: whole ones, and what is none.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "graph/summary.h"
#include "model/onnx/onnx.h"
#include "model/update_rules.h"
#include "tests/model/onnx/onnx_model.h"

namespace ebbtide::model::onnx {
namespace {

using ::testing::HasSubstr;

class ReadTest : public ::testing::Test {
 protected:
  // Tests run side by side, each in a process of its own.
  ReadTest()
      : folder_(std::filesystem::path(::testing::TempDir()) / fmt::format("ebbtide_onnx_read_test_{}", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~ReadTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string Folder() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
};

TEST_F(ReadTest, AFileIsTheSameAsItsBytes) {
  const std::string bytes = SmallClassifier().Bytes();
  const TrainingGraph graph = ReadModel(Write("small.onnx", bytes), Batch(2)).value();
  EXPECT_EQ(graph, ParseModel("small.onnx", bytes, Batch(2)).value());
  EXPECT_EQ(graph.name, "small");
  EXPECT_EQ(LoadModel(Write("small.onnx", bytes), Batch(2)).value(), graph);
}

TEST_F(ReadTest, WeightsBehindTheStructureAreSkipped) {
  OnnxModel model = SmallClassifier();
  model.message.mutable_graph()->mutable_initializer(0)->set_raw_data(std::string(50 << 20, 'w'));
  EXPECT_EQ(Summarize(ReadModel(Write("large.onnx", model.Bytes()), Batch(2)).value()).parameters,
            4 * 3 * 9 + 4 + 4 + 5 * 4 + 5);
}

TEST_F(ReadTest, WhatIsNoFile) {
  EXPECT_THAT(ReadModel(Folder() + "/missing.onnx", {}).error().message, HasSubstr("missing.onnx: no such file"));
  EXPECT_THAT(ReadModel(Folder(), {}).error().message, HasSubstr("expected a file, found a folder"));
  EXPECT_THAT(ReadModel("/dev/zero", {}).error().message, HasSubstr("/dev/zero: expected a file, found a device"));
  EXPECT_THAT(ReadModel(Write("empty.onnx", ""), {}).error().message, HasSubstr("empty.onnx: is empty"));
  EXPECT_THAT(ReadModel(Write("text.onnx", "{\"version\": 1}\n"), {}).error().message, HasSubstr("text.onnx: byte 0"));
}

TEST_F(ReadTest, MoreThanTwoGigabytes) {
  // A sparse file: its length is looked at before its content.
  const std::string path = Write("huge.onnx", "x");
  std::filesystem::resize_file(path, std::uintmax_t{3} << 30);
  EXPECT_THAT(ReadModel(path, {}).error().message,
              HasSubstr("expected less than 2 GiB, with the weights as external data"));
}

// ---- Laws

TEST(LawsTest, ParametersDoNotDependOnTheBatchAndSavedBytesAreLinearInIt) {
  const Summary one = Summarize(ReadGood(SmallClassifier(), Batch(1))),
                two = Summarize(ReadGood(SmallClassifier(), Batch(2))),
                three = Summarize(ReadGood(SmallClassifier(), Batch(3)));
  EXPECT_EQ(one.parameters, three.parameters);
  EXPECT_EQ(three.saved_bytes - two.saved_bytes, two.saved_bytes - one.saved_bytes);
  EXPECT_EQ(three.forward_flops(), 3 * one.forward_flops());
}

TEST(LawsTest, SavedBytesOfTheSmallClassifier) {
  // Batch 2: the convolution's output [2, 4, 6, 6] for the batch norm, its mean and inverse deviation [4] each, the
  // ReLU's result in the batch norm's storage, the pooled features [2, 4] for the product, the log-probabilities [2, 5]
  // and the loss's total weight, one number.
  const Summary summary = Summarize(ReadGood(SmallClassifier(), Batch(2)));
  EXPECT_EQ(summary.saved_bytes, 4 * (2 * 4 * 36 + 4 + 4 + 2 * 4 * 36 + 2 * 4 + 2 * 5 + 1 + 1));
  // One multiplication and one addition: 36 places, 4 filters of 27, and the classifier's 4 x 5, for two images.
  EXPECT_EQ(summary.forward_flops(), 2 * 2 * (36 * 4 * 27 + 4 * 5));
}

TEST(LawsTest, EveryOptimizerOnBothDevices) {
  for (const std::string& optimizer : OptimizerNames()) {
    for (Device device : {Device::kCpu, Device::kCuda}) {
      ModelOptions options = Batch(2);
      options.optimizer = optimizer;
      options.device = device;
      const TrainingGraph graph = ReadGood(SmallClassifier(), options);
      // The update writes every parameter; without an optimizer it writes none.
      std::set<StorageId> parameters, written;
      for (std::size_t i = 0; i < graph.storages.size(); ++i) {
        if (graph.storages[i].kind == StorageKind::kParameter) parameters.insert(StorageId(i));
      }
      for (const Op& op : graph.ops) {
        if (op.phase != Phase::kUpdate) continue;
        for (const TensorId tensor : op.mutated) {
          const StorageId storage = graph.tensor(tensor).storage;
          if (graph.storage(storage).kind == StorageKind::kParameter) written.insert(storage);
        }
      }
      EXPECT_EQ(parameters.size(), 5u);
      EXPECT_EQ(written, optimizer == "none" ? std::set<StorageId>{} : parameters)
          << optimizer << ", " << (device == Device::kCuda ? "cuda" : "cpu");
    }
  }
}

}  // namespace
}  // namespace ebbtide::model::onnx
