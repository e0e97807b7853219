// Steps made by hand, in bytes: tensors are vectors of bytes, each in a storage of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimate/sink.h"
#include "estimate/training.h"
#include "graph/graph.h"

namespace ebbtide::estimate {

class StepMaker {
 public:
  TensorId Persistent(StorageKind kind, const std::string& name, Bytes bytes);
  // An op that reads `inputs` and yields one new tensor of each of `outputs`' sizes, named after it.
  std::vector<TensorId> Call(const std::string& kind, Phase phase, const std::vector<TensorId>& inputs,
                             const std::vector<Bytes>& outputs, const std::string& layer = "");
  TensorId CallOne(const std::string& kind, Phase phase, const std::vector<TensorId>& inputs, Bytes bytes,
                   const std::string& layer = "");
  // Its storage is a parameter's gradient: kept when the step has ended.
  void MarkGradient(TensorId id, const std::string& name);

  TrainingGraph graph;

 private:
  TensorId New(StorageKind kind, const std::string& name, Bytes bytes);
};

// A sink that writes down one word for each call: "+20 h", "-20 h", "+512 scratch", "iteration", "try" and "empty".
class Recorder : public Sink {
 public:
  explicit Recorder(const TrainingGraph& graph) : graph_(graph) {}

  bool Allocate(const Request& request) override;
  void Free(RequestId id) override { words.push_back("-" + names_[id.index()]); }
  void BeginIteration(std::int64_t) override { words.push_back("iteration"); }
  void Try(Bytes, OpId, From) override { words.push_back("try"); }
  void EmptyCache() override { words.push_back("empty"); }

  std::vector<std::string> words;
  std::int64_t most = 1'000'000;  // requests that are granted

 private:
  const TrainingGraph& graph_;
  std::vector<std::string> names_;
};

// What RunTraining asks for on an A100 of 80 GB.
std::vector<std::string> Words(const TrainingGraph& graph, const TrainingOptions& options);

// A step with ops of forward, backward and update over tensors of very different sizes. Equal seeds give equal steps.
TrainingGraph RandomStep(std::uint64_t seed);

}  // namespace ebbtide::estimate
