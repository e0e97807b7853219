// Front door of the models: whatever the user names becomes a TrainingGraph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "model/source.h"

namespace ebbtide::model {

// Whose kernels run: they save different things for backward (see gradient_rules.cc).
enum class Device { kCpu, kCuda };

// The same names on the command line (--batch-size, ...) and in Python.
struct ModelOptions {
  std::int64_t batch_size = 32;
  std::optional<std::int64_t> image_size;  // pixels, square; default of the model where absent
  std::optional<std::int64_t> seq_len;     // tokens
  std::optional<std::int64_t> classes;     // size of the output layer of a classifier
  std::vector<std::int64_t> widths;        // layers of `mlp`: input, hidden ..., output
  std::string optimizer = "sgd";           // see UpdateRules(); "none": no update, no optimizer state
  Device device = Device::kCpu;
  // Whose runtime trains the model. Built-in models are PyTorch's, and are translated for another; a file of a
  // framework's own is that framework's.
  Framework framework = Framework::kPytorch;
  bool assume_elementwise = false;        // an operator we do not know: same shape out as in, saves its inputs
  bool inference = false;                 // the model's outputs and no more: torch.no_grad(), model.eval()
  std::optional<DType> autocast;          // kBFloat16 or kFloat16: torch.autocast; of Device::kCuda
  std::vector<std::string> freeze;        // patterns of parameters that are not trained, see patterns.h
  std::optional<std::int64_t> lora;       // rank of the adapters that are trained in the model's stead, see lora.h
  std::vector<std::string> lora_targets;  // patterns of the layers that get one; none: those of peft
  std::int64_t accumulate = 1;            // batches whose gradients are summed before the update
  std::optional<std::string> checkpoint;  // pattern of the layers to recompute in backward; empty: repeated blocks
};

struct BuiltInModel {
  std::string name;
  std::string family;       // "convolutional", "language", ...
  std::string description;  // where its definition comes from, and its input
};

// All built-in models, in the order in which they are shown.
std::vector<BuiltInModel> BuiltInModels();

// Fails where a MODEL of this kind is not for that framework: built-in models are translated, files are not.
Status CheckFramework(const std::string& model, ModelSource source, Framework framework);

// MODEL as in the command line: a built-in name, or the path of an .onnx, an MXNet -symbol.json[.gz], a TensorFlow
// .pb[.gz] or SavedModel folder, a graph or timed trace .json[.gz], or a layer profile .txt; see SourceOf. Unknown
// names get the nearest ones suggested.
Result<TrainingGraph> LoadModel(const std::string& model, const ModelOptions& options);

}  // namespace ebbtide::model
