// Records ops into a TrainingGraph the way PyTorch would run them: tensors are shapes and strides, nothing is computed.
// The ops themselves (ops.h) and the layers (nn.h) are functions over a Builder; the zoo and the file readers use
// those. Differentiation (backward.h) goes on recording in the same Builder.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "graph/arguments.h"
#include "graph/graph.h"
#include "model/model.h"

namespace ebbtide::model {

// A tensor that an op makes in a storage of its own. Empty stride: contiguous.
struct OutputSpec {
  Dims shape;
  DType dtype = DType::kFloat32;
  Dims stride = {};
};

struct CallOptions {
  std::vector<TensorId> mutated = {};  // operands whose contents the op changes
  bool random = false;
};

using Arguments = std::vector<Argument>;

// From tensors to the tensors that take their place.
using TensorMap = std::unordered_map<TensorId, TensorId>;

class Builder {
 public:
  Builder(std::string name, const ModelOptions& options);

  const ModelOptions& options() const { return options_; }
  bool on_cuda() const { return options_.device == Device::kCuda; }
  bool inference() const { return options_.inference; }

  // ---- What exists before the step. Names are relative to the current layer.
  TensorId Input(const std::string& name, Dims shape, DType dtype = DType::kFloat32);
  TensorId Label(const std::string& name, Dims shape);  // what only the loss reads; absent in inference
  // Trained, unless the options freeze it: ModelOptions::freeze, or `lora`, which trains nothing but adapters.
  TensorId Parameter(const std::string& name, Dims shape);  // in ModelOptions::dtype
  TensorId Parameter(const std::string& name, Dims shape, DType dtype);
  TensorId FrozenParameter(const std::string& name, Dims shape, DType dtype);  // one that nothing trains
  TensorId AdapterParameter(const std::string& name, Dims shape);
  TensorId Buffer(const std::string& name, Dims shape, DType dtype = DType::kFloat32);
  TensorId State(const std::string& name, Dims shape, DType dtype);  // of the optimizer

  // ---- Layers: ops recorded while a Layer lives carry its path, and parameters are named below it.
  class Layer {
   public:
    Layer(const Layer&) = delete;
    ~Layer() { builder_.layer_.resize(length_before_); }

   private:
    friend class Builder;
    Layer(Builder& builder, std::size_t length_before) : builder_(builder), length_before_(length_before) {}
    Builder& builder_;
    std::size_t length_before_;
  };
  [[nodiscard]] Layer Enter(std::string_view name);
  [[nodiscard]] Layer EnterBlock(std::string_view name);  // one of the blocks that the model is a repetition of
  bool IsBlock(std::string_view path) const { return blocks_.contains(path); }
  void NoteLinearLayer() { linear_layers_.push_back(layer_); }
  const std::vector<std::string>& linear_layers() const { return linear_layers_; }
  const std::string& layer() const { return layer_; }
  void set_layer(std::string layer) { layer_ = std::move(layer); }

  // ---- Recording. Operands are the tensors among the arguments; an invalid TensorId is None.
  // An op that makes new storages, one per output.
  std::vector<TensorId> Call(std::string kind, Arguments arguments, std::vector<OutputSpec> outputs,
                             const CallOptions& options = {});
  TensorId CallOne(std::string kind, Arguments arguments, OutputSpec output, const CallOptions& options = {});
  // An op that yields another view of the storage of `base`.
  TensorId View(std::string kind, TensorId base, Arguments arguments, Dims shape, Dims stride, std::int64_t offset);
  // An op that cuts `base` along one axis into views of those sizes.
  std::vector<TensorId> Views(std::string kind, TensorId base, Arguments arguments, const Dims& sizes, int axis);
  // An op that changes `target` and yields it anew (same storage, shape and strides).
  TensorId InPlace(std::string kind, TensorId target, Arguments arguments, const CallOptions& options = {});

  // Notes that backward of the last recorded op reads `tensor` under that name (a copy made before an in-place op).
  void SaveForBackward(const std::string& name, TensorId tensor);

  // Records the ops [begin, end) once more, in the present phase, and returns what they yield now by what they
  // yielded then. What they read of others' making, they read again. In backward this is recomputation.
  TensorMap Repeat(std::size_t begin, std::size_t end);
  bool IsRecomputation(OpId op) const { return op.index() < recomputed_.size() && recomputed_[op.index()]; }

  // ---- Sizes that a user may choose wrongly. The first complaint is kept, with the layer it arose in; recording goes
  // on with sizes of at least one, and FinishStep (update_rules.h) returns the complaint in place of a graph.
  void Fail(const std::string& message);
  const std::optional<Error>& error() const { return error_; }

  // ---- Looking at what is recorded.
  const Tensor& at(TensorId id) const { return graph_.tensor(id); }
  const Dims& shape(TensorId id) const { return graph_.tensor(id).shape; }
  std::int64_t dim(TensorId id, int axis) const;  // negative axes count from the end
  bool NeedsGrad(TensorId id) const { return id.valid() && needs_grad_[id.index()]; }
  bool IsView(TensorId id) const { return is_view_[id.index()]; }  // made by View or Views, also if changed since
  void set_needs_grad(TensorId id, bool value) { needs_grad_[id.index()] = value; }
  const TrainingGraph& graph() const { return graph_; }
  TrainingGraph& graph() { return graph_; }
  const std::vector<TensorId>& parameters() const { return parameters_; }
  TensorId SavedFor(OpId op, const std::string& name) const;

  // ---- Mixed precision (autocast_rules.h): the low-precision copies of parameters, until the pass ends.
  bool IsTrainedParameter(TensorId id) const;  // as torch sees it: a leaf that requires a gradient
  TensorId cast_of(TensorId parameter) const;  // invalid: none
  void RememberCast(TensorId parameter, TensorId copy) { casts_[parameter] = copy; }
  void EndForward();  // drops the copies; what backward saved of them lives on

  Phase phase() const { return phase_; }
  void set_phase(Phase phase) { phase_ = phase; }

 private:
  TensorId NewTensor(StorageId storage, DType dtype, Dims shape, Dims stride, std::int64_t offset, std::string name);
  TensorId Persistent(StorageKind kind, const std::string& name, Dims shape, DType dtype);
  TensorId Learnt(const std::string& name, Dims shape, DType dtype, bool may_be_trained);
  TensorId TensorLike(TensorId old, const Op& op, const TensorMap& map);
  Op& Record(std::string kind, Arguments arguments, const CallOptions& options);
  bool OutputsNeedGrad(const Op& op) const;

  TrainingGraph graph_;
  ModelOptions options_;
  Phase phase_ = Phase::kForward;
  std::string layer_;
  std::vector<bool> needs_grad_;  // by tensor
  std::vector<bool> is_view_;     // by tensor
  std::vector<TensorId> parameters_;
  std::map<std::pair<OpId, std::string>, TensorId> saved_;
  std::map<TensorId, TensorId> casts_;  // by parameter
  std::set<TensorId> trained_;          // of the parameters
  std::set<std::string, std::less<>> blocks_;
  std::vector<std::string> linear_layers_;
  std::vector<bool> recomputed_;  // by op
  std::optional<Error> error_;
};

// ---- Shape arithmetic that ops share.
Dims ContiguousStride(const Dims& shape);
bool IsContiguous(const Tensor& tensor);
// Every element is one address and every address in range one element, in any order of the axes.
bool IsDense(const Tensor& tensor);
// Strides of a new tensor of `shape` whose axes are ordered in memory as those of `like` (torch's preserve_format).
Dims StrideLike(const Tensor& like, const Dims& shape);
// Shape of an element-wise op over both; asserts that they broadcast.
Dims BroadcastShape(const Dims& a, const Dims& b);
std::int64_t ElementCount(const Dims& shape);

}  // namespace ebbtide::model
