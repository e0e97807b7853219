// Walks the forward ops backwards and writes out the formulas of the gradient table, with the references and in-place
// sums of autograd's engine.
#include "model/backward.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "model/checkpoint.h"
#include "model/gradient_rules.h"
#include "model/ops.h"
#include "model/saved.h"

namespace ebbtide::model {

namespace {

// What a name in a formula stands for: one tensor, several, or none (a number, or an absent operand).
using Operand = std::vector<TensorId>;

const std::set<std::string, std::less<>> kElementwise = {"mul", "div", "neg", "pow", "exp",   "sin",
                                                         "cos", "sgn", "ge",  "eq",  "where", "masked_fill"};

// These fill a new contiguous tensor with zeros and write into it; other kernels keep the order of their target's axes.
const std::set<std::string, std::less<>> kFromZeros = {"slice_backward", "select_backward", "gather_backward",
                                                       "index_put_backward", "index_select_backward"};

// These compute all their gradients, whichever are asked for; but a mask's only if it is.
const std::set<std::string, std::less<>> kWhole = {
    "cudnn_batch_norm_backward", "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_efficient_attention_backward"};

class Backward {
 public:
  Backward(Builder& builder, TensorId loss, std::size_t begin, const ParameterGradients& before)
      : b_(builder),
        loss_(loss),
        begin_(begin),
        end_(builder.graph().ops.size()),
        recomputation_(builder, begin),
        gradients_(before) {
    gradient_.resize(builder.graph().tensors.size());
    for (std::size_t i = 0; i < before.size(); ++i) place_[before[i].first] = i;
    FindLastContributions();
  }

  static bool IsFunction(const std::string& name) { return kElementwise.contains(name) || kFunctions.contains(name); }

  ParameterGradients Run() {
    b_.set_phase(Phase::kBackward);
    b_.set_layer(b_.graph().ops.back().layer);
    Accumulate(loss_, b_.CallOne("ones_like", {{"self", loss_}}, {b_.shape(loss_), b_.at(loss_).dtype}));
    for (std::size_t i = end_; i-- > begin_;) RunNode(OpId(i));
    return std::move(gradients_);
  }

 private:
  // Of every parameter, the last node to contribute to its gradient.
  void FindLastContributions() {
    std::vector<bool> reached(gradient_.size());
    reached[loss_.index()] = true;
    for (std::size_t i = end_; i-- > begin_;) {
      const Op& node = b_.graph().ops[i];
      if (std::ranges::none_of(node.outputs, [&](TensorId out) { return reached[out.index()]; })) continue;
      for (const GradientStatement& statement : FindGradientRule(node.kind)->backward) {
        for (const std::string& name : statement.targets) {
          for (TensorId id : TensorsNamed(b_, OpId(i), name)) {
            if (!b_.NeedsGrad(id)) continue;
            reached[id.index()] = true;
            if (IsParameter(id) && !b_.IsView(id)) last_contribution_[id] = OpId(i);
          }
        }
      }
    }
  }

  bool IsParameter(TensorId id) const { return b_.IsTrainedParameter(id); }  // not a view of one

  void RunNode(OpId id) {
    const Op node = b_.graph().op(id);  // a copy: recording moves the ops
    if (std::ranges::none_of(node.outputs, [&](TensorId out) { return Gradient(out).valid(); })) return;
    const GradientRule* rule = FindGradientRule(node.kind);
    node_ = &node;
    node_id_ = id;
    b_.set_layer(node.layer);
    arrivals_.clear();
    std::vector<StorageId> given;
    for (TensorId out : node.outputs) {
      if (Gradient(out).valid()) given.push_back(b_.at(Gradient(out)).storage);
    }
    recomputation_.NoteGradients(id, given);
    recomputation_.Before(id);
    const std::size_t first_op = b_.graph().ops.size(), first_storage = b_.graph().storages.size();
    for (const GradientStatement& statement : rule->backward) {
      const std::size_t op = b_.graph().ops.size(), storage = b_.graph().storages.size();
      Run(statement);
      HoldWhatWasRead(op, storage, b_.graph().storages.size());  // a formula's own results
    }
    HoldWhatWasRead(first_op, 0, first_storage);  // the gradient, and what the node saved
    recomputation_.After(id);
    if (std::ranges::none_of(node.inputs, [&](TensorId in) { return b_.NeedsGrad(in); })) KeepLeaves(node);
    for (TensorId out : node.outputs) Drop(out);
    for (auto [target, gradient] : arrivals_) Accumulate(target, gradient);
    for (auto [target, gradient] : arrivals_) {
      const auto last = last_contribution_.find(target);
      if (last != last_contribution_.end() && last->second == id) Complete(target);
    }
  }

  // Autograd drops what a formula reads when the formula is done, and what a node saved or was given when the node is:
  // storages from `begin` to `end` that the ops since `first_op` read stay until the last of those ops.
  void HoldWhatWasRead(std::size_t first_op, std::size_t begin, std::size_t end) {
    TrainingGraph& graph = b_.graph();
    for (std::size_t i = first_op; i < graph.ops.size(); ++i) {
      for (const TensorId input : graph.ops[i].inputs) {
        const StorageId id = graph.tensor(input).storage;
        const bool is_asked_for = begin <= id.index() && id.index() < end;
        if (!is_asked_for || IsPersistent(graph.storage(id).kind) || id == graph.tensor(loss_).storage) continue;
        graph.storages[id.index()].released_after = OpId(graph.ops.size() - 1);
      }
    }
  }

  void Run(const GradientStatement& statement) {
    Operand targets;
    for (const std::string& name : statement.targets) {
      for (TensorId id : Lookup(name)) {
        if (b_.NeedsGrad(id)) targets.push_back(id);
      }
    }
    if (targets.empty()) return;
    const Formula& formula = statement.formula;
    if (formula.name == "parts") return RunParts(targets);
    if (formula.name == "joined" || formula.name == "stacked")
      return Arrive(targets[0], Joined(formula.name == "stacked"));
    if (IsFunction(formula.name)) {
      target_ = targets[0];
      // Autograd hands a gradient on in the type of what it is for.
      return Arrive(targets[0], op::Cast(b_, SumTo(Evaluate(formula), targets[0]), b_.at(targets[0]).dtype));
    }
    // A kernel whose outputs are shaped like its targets.
    if (kWhole.contains(formula.name)) targets = WholeTargets(statement);
    std::vector<OutputSpec> outputs;
    for (TensorId id : targets) {
      const Tensor& like = b_.at(id);
      outputs.push_back({like.shape, like.dtype, kFromZeros.contains(formula.name) ? Dims{} : KernelStride(id)});
    }
    Arguments arguments;
    for (const Formula& operand : formula.operands) {
      Operand ids = Read(operand.name);
      if (ids.size() == 1) arguments.push_back({operand.name, ids[0]});
      if (ids.size() > 1) arguments.push_back({operand.name, TensorList{ids}});
    }
    for (const Argument& argument : node_->arguments) {
      bool is_tensor =
          std::holds_alternative<TensorId>(argument.value) || std::holds_alternative<TensorList>(argument.value);
      if (!is_tensor && !std::holds_alternative<std::monostate>(argument.value)) arguments.push_back(argument);
    }
    if (formula.name.ends_with('_')) {
      const TensorId place = Read(formula.operands.front().name).front();
      arguments.erase(arguments.begin());
      return Arrive(targets[0], b_.InPlace(formula.name, place, std::move(arguments)));
    }
    std::vector<TensorId> gradients = b_.Call(formula.name, std::move(arguments), std::move(outputs));
    const bool is_of_input = std::ranges::count(statement.targets, "input") > 0;
    if (const auto* scratch = ArgumentAs<std::int64_t>(*node_, "backward_workspace"); scratch && is_of_input) {
      b_.graph().ops.back().workspace = *scratch;
      b_.graph().ops.back().flops = node_->flops;
    }
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (b_.NeedsGrad(targets[i])) Arrive(targets[i], InLayoutOf(targets[i], gradients[i]));
    }
  }

  Operand WholeTargets(const GradientStatement& statement) {
    Operand targets;
    for (const std::string& name : statement.targets) {
      for (TensorId id : Lookup(name)) {
        if (id.valid() && (b_.NeedsGrad(id) || name != "attn_bias")) targets.push_back(id);
      }
    }
    return targets;
  }

  // A kernel keeps the order of its target's axes, but a convolution's weight gradient has its input's.
  Dims KernelStride(TensorId target) const {
    bool is_filter = node_->kind == "convolution" && target == TensorArgument(*node_, "weight");
    return StrideLike(b_.at(is_filter ? TensorArgument(*node_, "input") : target), b_.shape(target));
  }

  // Autograd keeps a parameter's gradient in the parameter's own layout, at the price of a copy.
  TensorId InLayoutOf(TensorId parameter, TensorId gradient) {
    const Tensor want = b_.at(parameter), have = b_.at(gradient);
    bool same = true;
    for (std::size_t i = 0; i < want.shape.size(); ++i) same &= want.shape[i] <= 1 || want.stride[i] == have.stride[i];
    if (same || !IsParameter(parameter) || place_.contains(parameter)) return gradient;
    TensorId copy = b_.CallOne("new_empty_strided", {{"self", gradient}, {"size", want.shape}, {"stride", want.stride}},
                               {want.shape, want.dtype, want.stride});
    return b_.InPlace("copy_", copy, {{"src", gradient}});
  }

  // The tensors behind a name: gradients of outputs, outputs, arguments, or what the forward op noted.
  Operand Lookup(const std::string& name) {
    if (name == "grad") return {Gradient(node_->outputs[0])};
    if (name == "grads") return GradientsOfOutputs();
    return TensorsNamed(b_, node_id_, name);
  }

  Operand GradientsOfOutputs() const {
    Operand gradients;
    for (const TensorId out : node_->outputs) {
      if (Gradient(out).valid()) gradients.push_back(Gradient(out));
    }
    return gradients;
  }

  // The same to be read: gradients, and what forward saved, made again where the layer is checkpointed.
  Operand Read(const std::string& name) {
    Operand ids = Lookup(name);
    for (TensorId& id : ids) id = recomputation_.Instead(node_id_, id);
    return ids;
  }

  // Formulas of one target; numbers drop out of the operands.
  TensorId Evaluate(const Formula& formula) {
    if (!formula.is_call) {
      Operand ids = Read(formula.name);
      return ids.empty() ? TensorId() : ids[0];
    }
    std::vector<TensorId> operands;
    for (const Formula& operand : formula.operands) {
      if (TensorId id = Evaluate(operand); id.valid()) operands.push_back(id);
    }
    if (kElementwise.contains(formula.name)) return op::Pointwise(b_, formula.name, operands);
    return (this->*kFunctions.at(formula.name))(operands);
  }

  using Operands = const std::vector<TensorId>&;
  TensorId Same(Operands x) { return x[0]; }
  TensorId T(Operands x) { return op::T(b_, x[0]); }
  TensorId MatrixTransposed(Operands x) { return op::Transpose(b_, x[0], 1, 2); }
  TensorId Mm(Operands x) { return op::Mm(b_, x[0], x[1]); }
  TensorId Bmm(Operands x) { return op::Bmm(b_, x[0], x[1]); }
  TensorId Reshaped(Operands x) { return op::Reshape(b_, x[0], b_.shape(target_)); }
  // A kernel that writes the gradient over its first operand.
  TensorId Overwritten(Operands x) {
    Arguments read;
    for (std::size_t i = 1; i < x.size(); ++i) read.push_back({fmt::format("read{}", i), x[i]});
    return b_.InPlace("triton_backward_", x[0], std::move(read));
  }
  TensorId ToCopy(Operands x) { return op::Cast(b_, x[0], b_.at(target_).dtype); }

  TensorId Transposed(Operands x) {
    if (node_->kind == "t") return op::T(b_, x[0]);
    return op::Transpose(b_, x[0], static_cast<int>(Integer("dim0")), static_cast<int>(Integer("dim1")));
  }

  TensorId Unpermuted(Operands x) {
    const Dims& dims = std::get<Dims>(*FindArgument(*node_, "dims"));
    std::vector<int> inverse(dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i) inverse[dims[i]] = static_cast<int>(i);
    return op::Permute(b_, x[0], inverse);
  }

  // Puts the reduced axes back as ones, then repeats along them.
  TensorId Expanded(Operands x) {
    Dims kept = b_.shape(target_);
    const Dims* reduced = nullptr;
    if (const Value* value = FindArgument(*node_, "dim")) reduced = std::get_if<Dims>(value);
    std::int64_t rank = static_cast<std::int64_t>(kept.size());
    if (!reduced || reduced->empty()) return op::Expand(b_, x[0], b_.shape(target_));
    for (std::int64_t dim : *reduced) kept[dim < 0 ? dim + rank : dim] = 1;
    return op::Expand(b_, op::Reshape(b_, x[0], kept), b_.shape(target_));
  }

  static const std::unordered_map<std::string, TensorId (Backward::*)(Operands)> kFunctions;

  TensorId SumTo(TensorId gradient, TensorId target) {
    const Dims have = b_.shape(gradient), want = b_.shape(target);
    if (have == want) return gradient;
    Dims axes;
    std::size_t added = have.size() - want.size();
    for (std::size_t i = 0; i < have.size(); ++i) {
      if (i < added || (want[i - added] == 1 && have[i] != 1)) axes.push_back(static_cast<std::int64_t>(i));
    }
    if (!axes.empty()) gradient = op::Sum(b_, gradient, axes, true);
    return op::Reshape(b_, gradient, want);
  }

  // cat and stack: each tensor's gradient is a view of the whole.
  void RunParts(const Operand& wanted) {
    TensorId gradient = Gradient(node_->outputs[0]);
    int axis = static_cast<int>(Integer("dim"));
    std::int64_t start = 0;
    for (TensorId id : Lookup("tensors")) {
      bool is_wanted = std::ranges::find(wanted, id) != wanted.end();
      std::int64_t size = node_->kind == "stack" ? 1 : b_.shape(id)[axis];
      if (is_wanted && node_->kind == "stack") Arrive(id, op::Select(b_, gradient, axis, start));
      if (is_wanted && node_->kind != "stack") Arrive(id, op::Slice(b_, gradient, axis, start, start + size));
      start += size;
    }
  }

  // split and unbind: the gradients of all outputs, zeros where there is none.
  TensorId Joined(bool along_new_axis) {
    std::vector<TensorId> gradients;
    for (TensorId out : node_->outputs) {
      TensorId gradient = Gradient(out);
      gradients.push_back(gradient.valid() ? gradient : op::Fill(b_, "zeros", b_.shape(out), b_.at(out).dtype));
    }
    int axis = static_cast<int>(Integer("dim"));
    return along_new_axis ? op::Stack(b_, gradients, axis) : op::Cat(b_, gradients, axis);
  }

  std::int64_t Integer(std::string_view name) const { return std::get<std::int64_t>(*FindArgument(*node_, name)); }

  // ---- Gradients under way. `references_` counts those that look at a storage.
  TensorId Gradient(TensorId id) const { return id.index() < gradient_.size() ? gradient_[id.index()] : TensorId(); }

  void Arrive(TensorId target, TensorId gradient) { arrivals_.emplace_back(target, gradient); }

  void Put(TensorId target, TensorId gradient) {
    Drop(target);
    gradient_[target.index()] = gradient;
    ++references_[b_.at(gradient).storage];
  }

  void Drop(TensorId target) {
    TensorId old = Gradient(target);
    if (!old.valid()) return;
    --references_[b_.at(old).storage];
    gradient_[target.index()] = TensorId();
  }

  void Accumulate(TensorId target, TensorId gradient) {
    TensorId old = Gradient(target);
    if (!old.valid()) return Put(target, gradient);
    // A view keeps what it looks at alive, and torch sums in place only what nothing else refers to.
    Put(target, OwnsStorage(old) && !b_.IsView(old) && b_.at(old).storage != b_.at(gradient).storage
                    ? op::BinaryInPlace(b_, "add_", old, gradient)
                    : op::Add(b_, old, gradient));
  }

  bool OwnsStorage(TensorId gradient) {
    const Tensor& tensor = b_.at(gradient);
    Bytes bytes = SaturatingMul(ElementCount(tensor.shape), ItemSize(tensor.dtype));
    return references_[tensor.storage] == 1 && IsDense(tensor) &&
           bytes == b_.graph().storages[tensor.storage.index()].bytes;
  }

  // A parameter's gradient is kept after the step: torch copies it where it is a view of something else.
  TensorId OwnGradient(TensorId parameter) {
    TensorId gradient = Gradient(parameter);
    return OwnsStorage(gradient) ? gradient : op::Clone(b_, gradient);
  }

  // A tensor of the forward pass that was told to require a gradient has one for good, and autograd's graph, which the
  // loss refers to, has it.
  void KeepLeaves(const Op& node) {
    for (TensorId out : node.outputs) {
      if (!b_.NeedsGrad(out) || !Gradient(out).valid()) continue;
      b_.graph().outputs.push_back(out);
      b_.graph().outputs.push_back(Gradient(out));
    }
  }

  // The parameter takes the gradient for its own, or adds it to the one it has.
  void Complete(TensorId parameter) {
    const auto [entry, is_first] = place_.try_emplace(parameter, gradients_.size());
    if (is_first) {
      gradients_.emplace_back(parameter, OwnGradient(parameter));
      return;
    }
    TensorId& sum = gradients_[entry->second].second;
    sum = op::BinaryInPlace(b_, "add_", sum, Gradient(parameter));
    Drop(parameter);
  }

  Builder& b_;
  TensorId loss_;
  std::size_t begin_, end_;  // the forward ops
  Recomputation recomputation_;
  ParameterGradients gradients_;
  std::unordered_map<TensorId, std::size_t> place_;  // in gradients_, by parameter
  std::unordered_map<TensorId, OpId> last_contribution_;
  std::vector<TensorId> gradient_;  // by forward tensor
  std::unordered_map<StorageId, int> references_;
  std::vector<std::pair<TensorId, TensorId>> arrivals_;  // target, gradient: of the node that runs
  const Op* node_ = nullptr;
  OpId node_id_;
  TensorId target_;
};

const std::unordered_map<std::string, TensorId (Backward::*)(Backward::Operands)> Backward::kFunctions = {
    {"same", &Backward::Same},
    {"t", &Backward::T},
    {"mt", &Backward::MatrixTransposed},
    {"mm", &Backward::Mm},
    {"bmm", &Backward::Bmm},
    {"reshaped", &Backward::Reshaped},
    {"transposed", &Backward::Transposed},
    {"unpermuted", &Backward::Unpermuted},
    {"expanded", &Backward::Expanded},
    {"_to_copy", &Backward::ToCopy},
    {"overwritten", &Backward::Overwritten},
};

}  // namespace

bool IsFormulaFunction(std::string_view name) { return Backward::IsFunction(std::string(name)); }

ParameterGradients RecordBackward(Builder& builder, TensorId loss, std::size_t begin,
                                  const ParameterGradients& before) {
  return Backward(builder, loss, begin, before).Run();
}

void AssignStorageKinds(Builder& builder, const ParameterGradients& gradients) {
  TrainingGraph& graph = builder.graph();
  enum class Maker : std::uint8_t { kOther, kForward, kRecomputation };
  std::vector<Maker> maker(graph.storages.size());
  std::vector<OpId> last_use(graph.storages.size());
  auto made = [&](StorageId id) { return !IsPersistent(graph.storage(id).kind); };
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const bool recomputed = builder.IsRecomputation(OpId(i));
    for (TensorId in : op.inputs) last_use[graph.tensor(in).storage.index()] = OpId(i);
    for (TensorId out : op.outputs) {
      StorageId id = graph.tensor(out).storage;
      if (maker[id.index()] != Maker::kOther) continue;
      if (op.phase == Phase::kForward) maker[id.index()] = Maker::kForward;
      if (recomputed) maker[id.index()] = Maker::kRecomputation;
    }
    if (op.phase != Phase::kBackward) continue;
    for (TensorId in : op.inputs) {
      StorageId id = graph.tensor(in).storage;
      const bool kept =
          maker[id.index()] == Maker::kForward || (maker[id.index()] == Maker::kRecomputation && !recomputed);
      if (made(id) && kept) graph.storages[id.index()].kind = StorageKind::kActivation;
    }
  }
  for (std::size_t i = 0; i < graph.storages.size(); ++i) {
    OpId& released = graph.storages[i].released_after;
    if (released.valid() && last_use[i].valid() && last_use[i] >= released) released = OpId();
  }
  for (auto [parameter, gradient] : gradients) {
    Storage& storage = graph.storages[graph.tensor(gradient).storage.index()];
    storage.kind = StorageKind::kGradient;
    storage.released_after = OpId(graph.ops.size() - 1);
    storage.name = graph.storage_of(parameter).name + ".grad";
  }
}

}  // namespace ebbtide::model
