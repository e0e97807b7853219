// Appends storages, tensors and ops to the graph, and decides which tensors need gradients.
#include "model/builder.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <numeric>

#include "model/flops.h"
#include "model/gradient_rules.h"
#include "model/patterns.h"

namespace ebbtide::model {

Builder::Builder(std::string name, const ModelOptions& options) : options_(options) {
  graph_.name = std::move(name);
  graph_.meta["device"] = on_cuda() ? "cuda" : "cpu";
}

TensorId Builder::NewTensor(StorageId storage, DType dtype, Dims shape, Dims stride, std::int64_t offset,
                            std::string name) {
  graph_.tensors.push_back({storage, dtype, std::move(shape), std::move(stride), offset, std::move(name)});
  needs_grad_.push_back(false);
  is_view_.push_back(false);
  return TensorId(graph_.tensors.size() - 1);
}

TensorId Builder::Persistent(StorageKind kind, const std::string& name, Dims shape, DType dtype) {
  std::string full_name = layer_.empty() ? name : layer_ + "." + name;
  graph_.storages.push_back({SaturatingMul(ElementCount(shape), ItemSize(dtype)), kind, full_name, OpId()});
  Dims stride = ContiguousStride(shape);
  return NewTensor(StorageId(graph_.storages.size() - 1), dtype, std::move(shape), std::move(stride), 0, full_name);
}

TensorId Builder::Input(const std::string& name, Dims shape, DType dtype) {
  return Persistent(StorageKind::kInput, name, std::move(shape), dtype);
}

TensorId Builder::Label(const std::string& name, Dims shape) {
  return inference() ? TensorId() : Input(name, std::move(shape), DType::kInt64);
}

TensorId Builder::Parameter(const std::string& name, Dims shape) {
  return Learnt(name, std::move(shape), options_.dtype.value_or(DType::kFloat32), !options_.lora);
}

TensorId Builder::Parameter(const std::string& name, Dims shape, DType dtype) {
  return Learnt(name, std::move(shape), dtype, !options_.lora);
}

TensorId Builder::FrozenParameter(const std::string& name, Dims shape, DType dtype) {
  return Learnt(name, std::move(shape), dtype, false);
}

TensorId Builder::AdapterParameter(const std::string& name, Dims shape) {
  return Learnt(name, std::move(shape), DType::kFloat32, true);
}

TensorId Builder::Learnt(const std::string& name, Dims shape, DType dtype, bool may_be_trained) {
  TensorId id = Persistent(StorageKind::kParameter, name, std::move(shape), dtype);
  const auto is_frozen = [&](const std::string& pattern) { return !MatchedPart(pattern, at(id).name).empty(); };
  const bool trained = may_be_trained && std::ranges::none_of(options_.freeze, is_frozen);
  if (trained) trained_.insert(id);
  needs_grad_[id.index()] = trained && !inference();
  parameters_.push_back(id);
  return id;
}

TensorId Builder::Buffer(const std::string& name, Dims shape, DType dtype) {
  return Persistent(StorageKind::kBuffer, name, std::move(shape), dtype);
}

TensorId Builder::State(const std::string& name, Dims shape, DType dtype) {
  return Persistent(StorageKind::kOptimizerState, name, std::move(shape), dtype);
}

Builder::Layer Builder::Enter(std::string_view name) {
  std::size_t before = layer_.size();
  if (!layer_.empty() && !name.empty()) layer_ += '.';
  layer_ += name;
  return Layer(*this, before);
}

Builder::Layer Builder::EnterBlock(std::string_view name) {
  blocks_.insert(layer_.empty() ? std::string(name) : fmt::format("{}.{}", layer_, name));
  return Enter(name);
}

Op& Builder::Record(std::string kind, Arguments arguments, const CallOptions& options) {
  Op op;
  op.kind = std::move(kind);
  op.phase = phase_;
  op.layer = layer_;
  // A multi-tensor update reads thousands: those are marked, and not looked for one by one.
  constexpr std::size_t kFew = 16;
  std::vector<bool> is_read;
  auto read = [&](TensorId id) {
    if (!id.valid()) return;
    if (op.inputs.size() < kFew) {
      if (std::find(op.inputs.begin(), op.inputs.end(), id) == op.inputs.end()) op.inputs.push_back(id);
      return;
    }
    if (is_read.empty()) {
      is_read.resize(graph_.tensors.size());
      for (const TensorId input : op.inputs) is_read[input.index()] = true;
    }
    if (is_read[id.index()]) return;
    is_read[id.index()] = true;
    op.inputs.push_back(id);
  };
  for (const Argument& argument : arguments) {
    if (const TensorId* id = std::get_if<TensorId>(&argument.value)) read(*id);
    if (const TensorList* list = std::get_if<TensorList>(&argument.value)) std::ranges::for_each(list->ids, read);
  }
  // An absent tensor is None in the file.
  for (Argument& argument : arguments) {
    if (const TensorId* id = std::get_if<TensorId>(&argument.value); id && !id->valid()) argument.value = Value{};
  }
  op.arguments = std::move(arguments);
  op.mutated = options.mutated;
  op.random = options.random;
  graph_.ops.push_back(std::move(op));
  return graph_.ops.back();
}

bool Builder::OutputsNeedGrad(const Op& op) const {
  if (phase_ != Phase::kForward) return false;
  if (std::ranges::none_of(op.inputs, [&](TensorId id) { return NeedsGrad(id); })) return false;
  const GradientRule* rule = FindGradientRule(op.kind);
  if (!rule) {
    fmt::print(stderr, "ebbtide: gradient_rules.cc has no row for {}\n", op.kind);
    std::abort();
  }
  return !rule->backward.empty();
}

std::vector<TensorId> Builder::Call(std::string kind, Arguments arguments, std::vector<OutputSpec> outputs,
                                    const CallOptions& options) {
  Op& op = Record(std::move(kind), std::move(arguments), options);
  bool needs_grad = OutputsNeedGrad(op);
  std::vector<TensorId> ids;
  for (OutputSpec& spec : outputs) {
    graph_.storages.push_back(
        {SaturatingMul(ElementCount(spec.shape), ItemSize(spec.dtype)), StorageKind::kTemporary, "", OpId()});
    Dims stride = spec.stride.empty() ? ContiguousStride(spec.shape) : std::move(spec.stride);
    DType dtype = spec.dtype;
    TensorId id =
        NewTensor(StorageId(graph_.storages.size() - 1), dtype, std::move(spec.shape), std::move(stride), 0, "");
    needs_grad_[id.index()] = needs_grad && IsFloating(dtype);
    ids.push_back(id);
  }
  op.outputs = ids;
  op.flops = CountFlops(graph_, op);
  return ids;
}

TensorId Builder::CallOne(std::string kind, Arguments arguments, OutputSpec output, const CallOptions& options) {
  return Call(std::move(kind), std::move(arguments), {std::move(output)}, options)[0];
}

TensorId Builder::View(std::string kind, TensorId base, Arguments arguments, Dims shape, Dims stride,
                       std::int64_t offset) {
  arguments.insert(arguments.begin(), {"self", base});
  Op& op = Record(std::move(kind), std::move(arguments), {});
  bool needs_grad = OutputsNeedGrad(op);
  StorageId storage = at(base).storage;
  TensorId id = NewTensor(storage, at(base).dtype, std::move(shape), std::move(stride), offset, "");
  needs_grad_[id.index()] = needs_grad;
  is_view_[id.index()] = true;
  op.outputs = {id};
  return id;
}

std::vector<TensorId> Builder::Views(std::string kind, TensorId base, Arguments arguments, const Dims& sizes,
                                     int axis) {
  arguments.insert(arguments.begin(), {"self", base});
  Op& op = Record(std::move(kind), std::move(arguments), {});
  bool needs_grad = OutputsNeedGrad(op);
  Tensor part = at(base);
  for (std::int64_t size : sizes) {
    part.shape[axis] = size;
    TensorId id = NewTensor(part.storage, part.dtype, part.shape, part.stride, part.offset, "");
    needs_grad_[id.index()] = needs_grad;
    is_view_[id.index()] = true;
    op.outputs.push_back(id);
    part.offset += size * part.stride[axis];
  }
  return op.outputs;
}

TensorId Builder::InPlace(std::string kind, TensorId target, Arguments arguments, const CallOptions& options) {
  arguments.insert(arguments.begin(), {"self", target});
  CallOptions with_target = options;
  with_target.mutated.insert(with_target.mutated.begin(), target);
  Op& op = Record(std::move(kind), std::move(arguments), with_target);
  bool needs_grad = OutputsNeedGrad(op);
  Tensor same = at(target);
  TensorId id = NewTensor(same.storage, same.dtype, same.shape, same.stride, same.offset, "");
  needs_grad_[id.index()] = needs_grad;
  is_view_[id.index()] = is_view_[target.index()];
  op.outputs = {id};
  return id;
}

void Builder::SaveForBackward(const std::string& name, TensorId tensor) {
  saved_[{OpId(graph_.ops.size() - 1), name}] = tensor;
}

TensorId Builder::SavedFor(OpId op, const std::string& name) const {
  auto found = saved_.find({op, name});
  return found == saved_.end() ? TensorId() : found->second;
}

bool Builder::IsTrainedParameter(TensorId id) const { return trained_.contains(id); }

TensorId Builder::cast_of(TensorId parameter) const {
  auto found = casts_.find(parameter);
  return found == casts_.end() ? TensorId() : found->second;
}

void Builder::EndForward() {
  // A later use, as backward's of what it saved, counts where it is later.
  for (auto [parameter, copy] : casts_) {
    graph_.storages[at(copy).storage.index()].released_after = OpId(graph_.ops.size() - 1);
  }
  casts_.clear();
}

void Builder::Fail(const std::string& message) {
  if (!error_) error_ = Error{layer_.empty() ? message : layer_ + ": " + message};
}

std::int64_t Builder::dim(TensorId id, int axis) const {
  const Dims& dims = shape(id);
  return dims[axis < 0 ? dims.size() + axis : axis];
}

Dims ContiguousStride(const Dims& shape) {
  Dims stride(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    stride[i] = step;
    step = SaturatingMul(step, std::max<std::int64_t>(shape[i], 1));
  }
  return stride;
}

bool IsContiguous(const Tensor& tensor) {
  Dims expected = ContiguousStride(tensor.shape);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (tensor.shape[i] > 1 && tensor.stride[i] != expected[i]) return false;
  }
  return true;
}

namespace {

// Axes from the outermost to the innermost in memory, found as torch's iterator does: an axis that repeats (stride 0)
// is neither before nor after another, hence an insertion sort, from the innermost axis.
std::vector<std::size_t> MemoryOrder(const Tensor& tensor) {
  std::vector<std::size_t> order(tensor.shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  for (std::size_t i = 1; i < order.size(); ++i) {
    for (std::size_t at = i, before = i; before-- > 0;) {
      std::int64_t inner = tensor.stride[order[before]], outer = tensor.stride[order[at]];
      if (inner == 0 || outer == 0) continue;
      if (inner < outer) break;
      if (inner == outer && tensor.shape[order[before]] <= tensor.shape[order[at]]) continue;
      std::swap(order[before], order[at]);
      at = before;
    }
  }
  std::ranges::reverse(order);
  return order;
}

}  // namespace

bool IsDense(const Tensor& tensor) {
  std::int64_t step = 1;
  std::vector<std::size_t> order = MemoryOrder(tensor);
  for (std::size_t i = order.size(); i-- > 0;) {
    std::int64_t size = tensor.shape[order[i]];
    if (size <= 1) continue;
    if (tensor.stride[order[i]] != step) return false;
    step = SaturatingMul(step, size);
  }
  return true;
}

Dims StrideLike(const Tensor& like, const Dims& shape) {
  if (like.shape.size() != shape.size() || IsContiguous(like)) return ContiguousStride(shape);
  Dims stride(shape.size());
  std::int64_t step = 1;
  std::vector<std::size_t> order = MemoryOrder(like);
  for (std::size_t i = order.size(); i-- > 0;) {
    stride[order[i]] = step;
    step = SaturatingMul(step, std::max<std::int64_t>(shape[order[i]], 1));
  }
  return stride;
}

Dims BroadcastShape(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {  // from the last axis
    std::int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    std::int64_t from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    assert(from_a == from_b || from_a == 1 || from_b == 1);
    out[out.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return out;
}

std::int64_t ElementCount(const Dims& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, SaturatingMul);
}

}  // namespace ebbtide::model
