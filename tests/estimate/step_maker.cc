// Makes ops and storages by hand, and random steps of them.
#include "tests/estimate/step_maker.h"

#include <random>

#include "device/profile.h"

namespace ebbtide::estimate {

TensorId StepMaker::New(StorageKind kind, const std::string& name, Bytes bytes) {
  const StorageId storage(graph.storages.size());
  graph.storages.push_back({.bytes = bytes, .kind = kind, .name = name, .released_after = {}});
  graph.tensors.push_back({storage, DType::kUInt8, {bytes}, {1}, 0, name});
  return TensorId(graph.tensors.size() - 1);
}

TensorId StepMaker::Persistent(StorageKind kind, const std::string& name, Bytes bytes) {
  return New(kind, name, bytes);
}

std::vector<TensorId> StepMaker::Call(const std::string& kind, Phase phase, const std::vector<TensorId>& inputs,
                                      const std::vector<Bytes>& outputs, const std::string& layer) {
  Op op;
  op.kind = kind;
  op.phase = phase;
  op.layer = layer;
  op.inputs = inputs;
  for (const Bytes bytes : outputs) op.outputs.push_back(New(StorageKind::kTemporary, kind, bytes));
  graph.ops.push_back(op);
  return op.outputs;
}

TensorId StepMaker::CallOne(const std::string& kind, Phase phase, const std::vector<TensorId>& inputs, Bytes bytes,
                            const std::string& layer) {
  return Call(kind, phase, inputs, {bytes}, layer).front();
}

void StepMaker::MarkGradient(TensorId id, const std::string& name) {
  Storage& storage = graph.storages[graph.tensor(id).storage.index()];
  storage.kind = StorageKind::kGradient;
  storage.name = name;
}

bool Recorder::Allocate(const Request& request) {
  if (static_cast<std::int64_t>(names_.size()) == most) return false;
  const std::string name = request.storage.valid() ? graph_.storage(request.storage).name : "scratch";
  names_.push_back(std::to_string(request.bytes) + " " + name);
  words.push_back("+" + names_.back());
  return true;
}

std::vector<std::string> Words(const TrainingGraph& graph, const TrainingOptions& options) {
  Recorder recorder(graph);
  RunTraining(graph, *FindProfile("a100-80gb"), options, recorder);
  return recorder.words;
}

TrainingGraph RandomStep(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  const auto size = [&] { return static_cast<Bytes>(random() % (Bytes{1} << (1 + pick(26)))); };
  const char* kinds[] = {"relu", "mm", "native_dropout", "add"};
  StepMaker step;
  std::vector<TensorId> tensors;
  const std::size_t parameters = 1 + pick(4);
  for (std::size_t i = 0; i < parameters; ++i) {
    tensors.push_back(step.Persistent(StorageKind::kParameter, "layer" + std::to_string(pick(2)) + ".weight", size()));
    step.Persistent(StorageKind::kOptimizerState, "state", size());
  }
  tensors.push_back(step.Persistent(StorageKind::kInput, "x", size()));
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
    const std::size_t ops = 1 + pick(12);
    for (std::size_t i = 0; i < ops; ++i) {
      const std::vector<Bytes> outputs(1 + pick(2), size());
      const std::vector<TensorId> made =
          step.Call(kinds[pick(4)], phase, {tensors[pick(tensors.size())]}, outputs, "layer" + std::to_string(pick(3)));
      tensors.insert(tensors.end(), made.begin(), made.end());
      if (phase == Phase::kBackward && pick(2) == 0) step.MarkGradient(made.front(), "grad");
    }
  }
  if (pick(2) == 0) step.graph.outputs.push_back(tensors.back());
  return step.graph;
}

}  // namespace ebbtide::estimate
