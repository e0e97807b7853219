// Copies, exchanges, and numbers anew.
#include "parallel/rewriter.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace ebbtide::parallel {
namespace {

template <class F>
void ForEachTensor(Op& op, const F& change) {
  for (auto* list : {&op.inputs, &op.outputs, &op.mutated}) {
    for (TensorId& id : *list) change(id);
  }
  for (Argument& argument : op.arguments) {
    if (auto* id = std::get_if<TensorId>(&argument.value)) change(*id);
    if (auto* list = std::get_if<TensorList>(&argument.value)) {
      for (TensorId& id : list->ids) change(id);
    }
  }
}

}  // namespace

Rewriter::Rewriter(const TrainingGraph& from) : from_(from), moved_(from.ops.size()) {
  CopyHead();
  out_.tensors = from.tensors;
}

Rewriter::Rewriter(TrainingGraph&& from) : from_(from), spent_(&from.ops), moved_(from.ops.size()) {
  CopyHead();
  out_.ops.reserve(from.ops.size());
  out_.tensors.reserve(from.tensors.size());
  for (Tensor& tensor : from.tensors) {
    if (from.storage(tensor.storage).kind == StorageKind::kParameter) {
      out_.tensors.push_back(tensor);
    } else {
      out_.tensors.push_back({.storage = tensor.storage,
                              .dtype = tensor.dtype,
                              .shape = std::move(tensor.shape),
                              .stride = std::move(tensor.stride),
                              .offset = tensor.offset,
                              .name = std::move(tensor.name)});
    }
  }
}

void Rewriter::CopyHead() {
  out_.name = from_.name;
  out_.framework = from_.framework;
  out_.loss_in_model = from_.loss_in_model;
  out_.makes_state_early = from_.makes_state_early;
  out_.meta = from_.meta;
  out_.storages = from_.storages;
  out_.scalars = from_.scalars;
  out_.outputs = from_.outputs;
}

StorageId Rewriter::NewStorage(Bytes bytes, StorageKind kind, std::string name) {
  out_.storages.push_back({.bytes = bytes, .kind = kind, .name = std::move(name), .released_after = {}});
  return StorageId(out_.storages.size() - 1);
}

TensorId Rewriter::FlatTensor(StorageId storage, DType dtype) {
  const std::int64_t elements = out_.storage(storage).bytes / ItemSize(dtype);
  out_.tensors.push_back({.storage = storage, .dtype = dtype, .shape = {elements}, .stride = {1}, .name = ""});
  return TensorId(out_.tensors.size() - 1);
}

TensorId Rewriter::Rebase(TensorId tensor, StorageId storage) {
  Tensor copy = out_.tensor(tensor);
  copy.storage = storage;
  out_.tensors.push_back(std::move(copy));
  return TensorId(out_.tensors.size() - 1);
}

OpId Rewriter::Emit(std::string kind, Phase phase, std::string layer, std::vector<TensorId> inputs,
                    std::vector<TensorId> outputs, Stream stream, std::vector<TensorId> mutated) {
  Op op;
  op.kind = std::move(kind);
  op.phase = phase;
  op.layer = std::move(layer);
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.mutated = std::move(mutated);
  SetStream(op, stream);
  out_.ops.push_back(std::move(op));
  return OpId(out_.ops.size() - 1);
}

OpId Rewriter::EmitCollective(std::string kind, Phase phase, std::string layer, std::vector<TensorId> inputs,
                              std::vector<TensorId> outputs, Bytes moved, Stream stream, const RankGroup& group,
                              std::vector<TensorId> mutated) {
  const OpId id = Emit(std::move(kind), phase, std::move(layer), std::move(inputs), std::move(outputs),
                       Stream::kCompute, std::move(mutated));
  MarkCollective(out_.ops.back(), moved, stream, group);
  return id;
}

OpId Rewriter::Copy(OpId old, const std::function<TensorId(TensorId)>& exchanged) {
  Op op = spent_ != nullptr ? std::move((*spent_)[old.index()]) : from_.op(old);
  ForEachTensor(op, [&](TensorId& id) {
    if (id.valid()) id = exchanged(id);
  });
  out_.ops.push_back(std::move(op));
  moved_[old.index()] = OpId(out_.ops.size() - 1);
  return moved_[old.index()];
}

TrainingGraph Rewriter::Take() && {
  std::vector<bool> tensor_used(out_.tensors.size()), storage_used(out_.storages.size());
  const auto use = [&](TensorId id) {
    tensor_used[id.index()] = true;
    storage_used[out_.tensor(id).storage.index()] = true;
  };
  std::vector<OpId> last_use(out_.storages.size());
  for (std::size_t i = 0; i < out_.ops.size(); ++i) {
    ForEachTensor(out_.ops[i], [&](TensorId& id) {
      if (!id.valid()) return;
      use(id);
      last_use[out_.tensor(id).storage.index()] = OpId(i);
    });
  }
  for (const TensorId id : out_.outputs) use(id);
  for (std::size_t i = 0; i < out_.tensors.size(); ++i) {
    const StorageKind kind = out_.storage_of(TensorId(i)).kind;
    if (kind == StorageKind::kInput || kind == StorageKind::kBuffer) use(TensorId(i));
  }
  std::vector<StorageId> storages(out_.storages.size());
  std::vector<TensorId> tensors(out_.tensors.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < out_.storages.size(); ++i) {
    if (!storage_used[i]) continue;
    Storage storage = std::move(out_.storages[i]);
    // Those of the old graph name old ops. A release before the last use, which may have moved, is none.
    OpId& released = storage.released_after;
    if (released.valid() && i < from_.storages.size()) released = moved_[released.index()];
    if (released.valid() && last_use[i].valid() && released <= last_use[i]) released = OpId();
    storages[i] = StorageId(count);
    out_.storages[count++] = std::move(storage);
  }
  out_.storages.resize(count);
  count = 0;
  for (std::size_t i = 0; i < out_.tensors.size(); ++i) {
    if (!tensor_used[i]) continue;
    Tensor tensor = std::move(out_.tensors[i]);
    tensor.storage = storages[tensor.storage.index()];
    tensors[i] = TensorId(count);
    out_.tensors[count++] = std::move(tensor);
  }
  out_.tensors.resize(count);
  for (Op& op : out_.ops) {
    ForEachTensor(op, [&](TensorId& id) {
      if (id.valid()) id = tensors[id.index()];
    });
  }
  for (TensorId& id : out_.outputs) id = tensors[id.index()];
  return std::move(out_);
}

}  // namespace ebbtide::parallel
