// Against TensorFlow itself: tests/fixtures/tensorflow_fixtures.py asked it, `make fixtures` does so again.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "alloc/bfc.h"
#include "base/file.h"
#include "estimate/estimate.h"
#include "estimate/tensorflow_training.h"
#include "graph/summary.h"
#include "model/model.h"

namespace ebbtide {
namespace {

const std::string kFixtures = std::string(EBBTIDE_SOURCE_DIR) + "/tests/fixtures/tensorflow/";

struct Reported {
  std::string model;
  model::ModelOptions options;
  std::int64_t parameters = 0;
  Bytes peak_tensors = 0;
};

std::vector<Reported> AllReported() {
  const Result<std::string> text = ReadFile(kFixtures + "reported.json", kMiB);
  std::vector<Reported> rows;
  for (const auto& row : nlohmann::json::parse(text.value())) {
    Reported reported{.model = row["model"],
                      .options = {},
                      .parameters = row["parameters"],
                      .peak_tensors = row["peak_tensor_bytes"]};
    reported.options.batch_size = row["batch"];
    rows.push_back(reported);
  }
  return rows;
}

TrainingGraph Load(const std::string& file, const model::ModelOptions& options) {
  Result<TrainingGraph> graph = model::LoadModel(kFixtures + file + ".pb.gz", options);
  EXPECT_TRUE(graph.has_value()) << (graph ? "" : graph.error().message);
  return graph.value_or(TrainingGraph());
}

// The CPU has no copies of what is fed, and kernels that take other scratch memory than those of a GPU: its allocator
// sees tensors alone.
class TensorMeter : public estimate::Sink {
 public:
  TensorMeter() : device_({.total = 1024 * kGiB}), allocator_({.allow_growth = true}, device_) {}

  bool Allocate(const estimate::Request& request) override {
    const bool counts = request.category != estimate::Category::kWorkspace &&
                        request.category != estimate::Category::kInput && request.bytes > 0;
    blocks_.push_back(counts ? allocator_.Allocate(request.bytes, alloc::StreamId(0)) : std::nullopt);
    return true;
  }
  void Free(estimate::RequestId request) override {
    if (blocks_[request.index()]) allocator_.Free(blocks_[request.index()]->id);
  }
  Bytes peak() const { return allocator_.usage().allocated_peak; }

 private:
  alloc::DeviceMemory device_;
  alloc::BfcAllocator allocator_;
  std::vector<std::optional<alloc::Block>> blocks_;
};

TEST(TensorflowFixtureTest, ParametersAreTensorflows) {
  ASSERT_GE(AllReported().size(), 24u);
  for (const Reported& reported : AllReported())
    EXPECT_EQ(Summarize(Load(reported.model, reported.options)).parameters, reported.parameters) << reported.model;
}

// Bytes in use after each kernel, in chunks of the BFC allocator.
TEST(TensorflowFixtureTest, ThePeakOfTensorsIsWithinFivePercent) {
  for (const Reported& reported : AllReported()) {
    TensorMeter meter;
    estimate::RunTensorflowTraining(Load(reported.model, reported.options), {}, {.iterations = 1}, meter);
    const double ratio = static_cast<double>(meter.peak()) / static_cast<double>(reported.peak_tensors);
    EXPECT_NEAR(ratio, 1, 0.05) << reported.model << " at batch " << reported.options.batch_size;
    std::printf("%-20s batch %2ld: %6.1f MiB, TensorFlow %6.1f MiB, %+.2f %%\n", reported.model.c_str(),
                reported.options.batch_size, static_cast<double>(meter.peak()) / kMiB,
                static_cast<double>(reported.peak_tensors) / kMiB, 100 * (ratio - 1));
  }
}

}  // namespace
}  // namespace ebbtide
