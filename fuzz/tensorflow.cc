// Graphs and SavedModels of TensorFlow: whatever the bytes are, a graph that passes Check or one line of complaint.
#include "model/tensorflow/tensorflow.h"

#include <cstdint>
#include <string>

#include "estimate/tensorflow_training.h"
#include "fuzz/require.h"
#include "graph/check.h"
#include "graph/json.h"

namespace {

using namespace ebbtide;

// What is freed was asked for, once.
class Ledger : public estimate::Sink {
 public:
  bool Allocate(const estimate::Request& request) override {
    Require(request.bytes >= 0, "no request of fewer than 0 bytes");
    is_held_.push_back(true);
    return true;
  }
  void Free(estimate::RequestId request) override {
    Require(request.valid() && request.index() < is_held_.size() && is_held_[request.index()],
            "what is freed was held");
    is_held_[request.index()] = false;
  }

 private:
  std::vector<bool> is_held_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string content(reinterpret_cast<const char*>(data), size);
  model::ModelOptions options;
  options.batch_size = 2;
  options.inference = size % 4 == 1;
  options.assume_elementwise = size % 4 == 2;
  options.optimizer = size % 4 == 3 ? "adam" : "sgd";
  const Result<TrainingGraph> graph = model::tensorflow::ParseModel("fuzz", content, options);
  if (!graph) {
    const std::string& message = graph.error().message;
    RequireOneLine(message, "fuzz", 2000);
    Require(!message.starts_with("fuzz: the training graph"), "what was read passes Check");
    return 0;
  }
  Require(Check(*graph).has_value(), "what was read passes Check");
  if (size < 20'000) Require(ParseGraph(ToJson(*graph), "fuzz").has_value(), "it can be written as a graph");
  Ledger ledger;
  const DeviceProfile none;
  estimate::RunTensorflowTraining(*graph, none, {.iterations = 1}, ledger);
  return 0;
}
