// Ops that are recorded once more: a further batch, or a block that is recomputed.
#include <algorithm>

#include "model/builder.h"

namespace ebbtide::model {

namespace {

// The same value with other tensors.
Value Mapped(const Value& value, const auto& map) {
  if (const TensorId* id = std::get_if<TensorId>(&value)) return map(*id);
  const TensorList* list = std::get_if<TensorList>(&value);
  if (!list) return value;
  TensorList mapped = *list;
  for (TensorId& id : mapped.ids) id = map(id);
  return mapped;
}

}  // namespace

// A tensor like `old`, which `op` yielded: in the storage that has the place of the old one's, or in a new one.
TensorId Builder::TensorLike(TensorId old, const Op& op, const TensorMap& map) {
  Tensor tensor = at(old);
  const StorageId storage = tensor.storage;
  const auto source = std::ranges::find_if(op.inputs, [&](TensorId id) { return at(id).storage == storage; });
  if (source != op.inputs.end()) {
    const auto found = map.find(*source);
    if (found != map.end()) tensor.storage = at(found->second).storage;
  } else {
    Storage fresh = graph_.storages[storage.index()];
    graph_.storages.push_back(std::move(fresh));
    tensor.storage = StorageId(graph_.storages.size() - 1);
  }
  const TensorId id = NewTensor(tensor.storage, tensor.dtype, tensor.shape, tensor.stride, tensor.offset, tensor.name);
  needs_grad_[id.index()] = needs_grad_[old.index()];
  is_view_[id.index()] = is_view_[old.index()];
  return id;
}

TensorMap Builder::Repeat(std::size_t begin, std::size_t end) {
  TensorMap map;
  const auto mapped = [&](TensorId id) {
    const auto found = map.find(id);
    return found == map.end() ? id : found->second;
  };
  const std::size_t first = graph_.ops.size(), shift = first - begin, last = end + shift - 1;
  for (std::size_t i = begin; i < end; ++i) {
    const Op op = graph_.ops[i];  // a copy: recording moves the ops
    Op again = op;
    again.phase = phase_;
    for (TensorId& id : again.inputs) id = mapped(id);
    for (TensorId& id : again.mutated) id = mapped(id);
    const std::size_t storages = graph_.storages.size();
    for (TensorId& id : again.outputs) map[id] = TensorLike(id, op, map), id = map[id];
    for (Argument& argument : again.arguments) argument.value = Mapped(argument.value, mapped);
    for (std::size_t s = storages; s < graph_.storages.size(); ++s) {
      OpId& released = graph_.storages[s].released_after;
      const bool in_forward = released.valid() && graph_.op(released).phase == Phase::kForward;
      released = in_forward ? OpId(std::min(released.index() + shift, last)) : OpId();
    }
    for (auto saved = saved_.lower_bound({OpId(i), ""}); saved != saved_.end() && saved->first.first == OpId(i);
         ++saved) {
      saved_[{OpId(i + shift), saved->first.second}] = mapped(saved->second);
    }
    graph_.ops.push_back(std::move(again));
  }
  recomputed_.resize(graph_.ops.size());
  if (phase_ == Phase::kBackward)
    std::fill(recomputed_.begin() + static_cast<std::ptrdiff_t>(first), recomputed_.end(), true);
  return map;
}

}  // namespace ebbtide::model
