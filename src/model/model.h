// Front door of the models: whatever the user names becomes a TrainingGraph.
#pragma once

#include <compare>
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

// ---- How a model of transformers is loaded and trained
// Which attention it calls: its `attn_implementation`.
enum class AttentionKernel : std::uint8_t { kSdpa, kEager, kFlash };
// How the linear layers of a frozen model are stored.
enum class Quantization : std::uint8_t { kNf4, kInt8, kGptq4, kFp8 };
// kFused: Liger's linear layer and cross-entropy in one, chunk by chunk; kChunked: cut cross-entropy, which keeps no
// scores at all.
enum class LossKernel : std::uint8_t { kPlain, kFused, kChunked };
// Whose kernels stand in for norms, positions, gates and losses: Liger's, or fms-acceleration's (those of unsloth).
enum class KernelSet : std::uint8_t { kPlain, kLiger, kFoak };
// What a checkpoint keeps of a block: nothing of torch's own, or as torch.utils.checkpoint(use_reentrant=True) has it.
enum class CheckpointKind : std::uint8_t { kPlain, kReentrant, kOffload };
// Which tokens go to which experts: as many to each, or as unequal as can be.
enum class RoutingCase : std::uint8_t { kBalanced, kWorst };
struct LibraryVersion {
  int major = 0, minor = 0;
  auto operator<=>(const LibraryVersion&) const = default;
};

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
  // ---- Of a Hugging Face configuration alone
  std::optional<DType> dtype;  // of the weights; absent: as the configuration says, else float32
  AttentionKernel attention = AttentionKernel::kSdpa;
  std::optional<Quantization> quantize;
  bool kbit_prepare = false;  // peft's prepare_model_for_kbit_training: what stays 16-bit becomes float32
  LossKernel loss = LossKernel::kPlain;
  KernelSet kernels = KernelSet::kPlain;
  bool packing = false;                      // several texts in a row, told apart by their positions
  std::optional<std::int64_t> resize_vocab;  // words after resize_token_embeddings
  LibraryVersion transformers = {5, 22};     // whose way to compute
  RoutingCase routing = RoutingCase::kBalanced;
  // ---- Of all that train
  double lora_dropout = 0;
  bool clip = false;  // torch.nn.utils.clip_grad_norm_ before the update
  CheckpointKind checkpoint_kind = CheckpointKind::kPlain;
  std::int64_t checkpoint_every = 1;      // of the repeated blocks, every so many-th
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
