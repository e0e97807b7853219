// Goes over storages, tensors and ops once each, and keeps what the laws about order and production need.
#include "graph/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json_text.h"
#include "graph/cycle.h"
#include "graph/head.h"
#include "graph/names.h"
#include "graph/place.h"
#include "graph/shape.h"

namespace ebbtide {
namespace {

// Each method looks at one kind of law and relies on those of the methods that CheckAll calls before it.
class Checker {
 public:
  explicit Checker(const TrainingGraph& graph)
      : graph_(graph),
        yielder_(graph.tensors.size()),
        reader_(graph.tensors.size()),
        mutator_(graph.tensors.size()),
        producer_(graph.storages.size()),
        holder_(graph.storages.size()) {}

  Status CheckAll() {
    EBB_RETURN_IF_ERROR(CheckCounts());
    EBB_RETURN_IF_ERROR(CheckHeader());
    EBB_RETURN_IF_ERROR(ForAll(graph_.storages, &Checker::CheckStorage));
    EBB_RETURN_IF_ERROR(ForAll(graph_.tensors, &Checker::CheckTensor));
    EBB_RETURN_IF_ERROR(ForAll(graph_.ops, &Checker::CheckOp));
    EBB_RETURN_IF_ERROR(ForAll(graph_.ops, &Checker::CheckUses));
    EBB_RETURN_IF_ERROR(CheckOutputs());
    return ForAll(graph_.storages, &Checker::CheckProduced);
  }

 private:
  template <class Item>
  Status ForAll(const std::vector<Item>& items, Status (Checker::*check)(std::size_t)) {
    for (std::size_t i = 0; i < items.size(); ++i) EBB_RETURN_IF_ERROR((this->*check)(i));
    return {};
  }

  Status CheckCounts();
  Status CheckHeader();
  Status CheckStorage(std::size_t index);
  Status CheckTensor(std::size_t index);
  Status CheckOp(std::size_t index);
  Status CheckYields(OpId op);
  Status CheckUses(std::size_t index);
  Status CheckRead(OpId op, std::size_t which);
  Status CheckArguments(OpId op);
  Status CheckValue(OpId op, const std::string& text) const;
  Status CheckValue(OpId op, TensorId id) const;
  Status CheckValue(OpId op, const TensorList& list) const;
  Status CheckValue(OpId op, ScalarId id) const;
  Status CheckValue(OpId op, const ScalarList& list) const;
  Status CheckValue(OpId op, const Named& named) const;
  template <class Plain>
  Status CheckValue(OpId, const Plain&) const {
    return {};
  }
  Status CheckOutputs();
  Status CheckProduced(std::size_t index);

  Status CheckTensorNumber(TensorId id) const {
    if (id.valid() && id.index() < graph_.tensors.size()) return {};
    return Fail("expected a tensor number below {}, found {}", graph_.tensors.size(), id.value);
  }
  Status AddTo(std::int64_t& total, std::int64_t amount, std::string_view field) const {
    if (amount < 0) return Fail("{}: expected 0 or more, found {}", field, amount);
    if (__builtin_add_overflow(total, amount, &total)) return Fail("{}: the sum up to here exceeds 64 bits", field);
    return {};
  }
  bool IsPersistentTensor(TensorId id) const { return IsPersistent(graph_.storage_of(id).kind); }
  std::string At(OpId op) const { return PlaceOf(graph_, op); }
  std::string At(StorageId storage) const { return PlaceOf(graph_, storage); }

  const TrainingGraph& graph_;
  std::vector<OpId> yielder_;   // of each tensor
  std::vector<OpId> reader_;    // the last op seen that reads the tensor
  std::vector<OpId> mutator_;   // the last op seen that mutates the tensor
  std::vector<OpId> producer_;  // of each storage: the first op that yields a tensor of it
  std::vector<OpId> holder_;    // the last op seen that was given a tensor of the storage
  Bytes bytes_ = 0;
  std::int64_t flops_ = 0;
  Nanos time_ = 0;
};

// The name that two arguments share; null: all are distinct.
const std::string* FindRepeatedName(const std::vector<Argument>& arguments) {
  if (arguments.size() <= 16) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (arguments[i].name == arguments[k].name) return &arguments[i].name;
      }
    }
    return nullptr;
  }
  std::vector<const std::string*> names(arguments.size());
  std::transform(arguments.begin(), arguments.end(), names.begin(), [](const Argument& a) { return &a.name; });
  std::sort(names.begin(), names.end(), [](const auto* a, const auto* b) { return *a < *b; });
  const auto twice =
      std::adjacent_find(names.begin(), names.end(), [](const auto* a, const auto* b) { return *a == *b; });
  return twice == names.end() ? nullptr : *twice;
}

Status CheckText(std::string_view text, std::string_view what) {
  if (IsUtf8(text)) return {};
  return Fail("{}: expected UTF-8, found {}", what, Quoted(text));
}

Status Checker::CheckCounts() {
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::size_t most =
      std::max({graph_.storages.size(), graph_.tensors.size(), graph_.ops.size(), graph_.scalars.size()});
  if (most > kMost) return Fail("expected at most {} storages, tensors, ops and scalars, found {}", kMost, most);
  return {};
}

Status Checker::CheckHeader() {
  EBB_RETURN_IF_ERROR(CheckText(graph_.name, "name"));
  for (const auto& [key, value] : graph_.meta) {
    EBB_RETURN_IF_ERROR(CheckText(key, "meta"));
    EBB_RETURN_IF_ERROR(CheckText(value, "meta"));
  }
  if (!HasOpsOf(graph_.framework, graph_)) {
    return Fail("framework: expected {}'s operators alone (\"schema\" of every op), found others",
                Name(graph_.framework));
  }
  for (std::size_t i = 0; i < graph_.scalars.size(); ++i) {
    if (!IsUtf8(graph_.scalars[i].name)) {
      return Fail("scalars[{}].name: expected UTF-8, found {}", i, Quoted(graph_.scalars[i].name));
    }
  }
  return {};
}

Status Checker::CheckStorage(std::size_t index) {
  const StorageId id(index);
  const Storage& storage = graph_.storages[index];
  const auto check = [&]() -> Status {
    EBB_RETURN_IF_ERROR(CheckText(storage.name, "name"));
    EBB_RETURN_IF_ERROR(AddTo(bytes_, storage.bytes, "bytes"));
    if (storage.outside && !IsPersistent(storage.kind)) return Fail("outside: expected false, since the step makes it");
    if (!storage.released_after.valid()) return {};
    if (storage.released_after.index() >= graph_.ops.size()) {
      return Fail("released_after: expected an op number below {}, found {}", graph_.ops.size(),
                  storage.released_after.value);
    }
    if (IsPersistent(storage.kind)) return Fail("released_after: expected none, since it outlives the step");
    return {};
  };
  if (const Status status = check(); !status) return Within(At(id), status.error());
  return {};
}

Status Checker::CheckTensor(std::size_t index) {
  const Tensor& tensor = graph_.tensors[index];
  const auto check = [&]() -> Status {
    EBB_RETURN_IF_ERROR(CheckText(tensor.name, "name"));
    if (!tensor.storage.valid() || tensor.storage.index() >= graph_.storages.size()) {
      return Fail("expected a storage number below {}, found {}", graph_.storages.size(), tensor.storage.value);
    }
    if (tensor.stride.size() != tensor.shape.size()) {
      return Fail("expected as many strides as dimensions, found {} and {}", tensor.stride.size(), tensor.shape.size());
    }
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (tensor.shape[i] < 0) return Fail("shape[{}]: expected 0 or more, found {}", i, tensor.shape[i]);
      if (tensor.stride[i] < 0) return Fail("stride[{}]: expected 0 or more, found {}", i, tensor.stride[i]);
    }
    if (tensor.offset < 0) return Fail("offset: expected 0 or more, found {}", tensor.offset);
    const auto count = ElementCount(tensor.shape);
    if (!count || !CheckedMul(*count, ItemSize(tensor.dtype))) return Fail("shape: its bytes exceed 64 bits");
    const auto reach = Reach(tensor);
    if (!reach) return Fail("its place in the storage exceeds 64 bits");
    if (*reach > graph_.storage(tensor.storage).bytes) {
      return Fail("reaches to byte {}, but {} has {}", *reach, At(tensor.storage),
                  graph_.storage(tensor.storage).bytes);
    }
    return {};
  };
  if (const Status status = check(); !status) return Within(PlaceOf(graph_, TensorId(index)), status.error());
  return {};
}

// Texts and numbers of an op, that its ids are of something, and that no op before it yields the same.
Status Checker::CheckOp(std::size_t index) {
  const Op& op = graph_.ops[index];
  const auto check_ids = [&](const std::vector<TensorId>& ids, std::string_view list) -> Status {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (const Status status = CheckTensorNumber(ids[i]); !status) {
        return Within(fmt::format("{}[{}]", list, i), status.error());
      }
    }
    return {};
  };
  const auto check = [&]() -> Status {
    if (op.kind.empty()) return Fail("kind: expected a name, found none");
    EBB_RETURN_IF_ERROR(CheckText(op.kind, "kind"));
    EBB_RETURN_IF_ERROR(CheckText(op.layer, "layer"));
    EBB_RETURN_IF_ERROR(CheckText(op.schema, "schema"));
    EBB_RETURN_IF_ERROR(check_ids(op.inputs, "inputs"));
    EBB_RETURN_IF_ERROR(check_ids(op.outputs, "outputs"));
    EBB_RETURN_IF_ERROR(check_ids(op.mutated, "mutated"));
    EBB_RETURN_IF_ERROR(AddTo(flops_, op.flops, "flops"));
    EBB_RETURN_IF_ERROR(AddTo(time_, op.time, "time_ns"));
    Bytes with_storages = bytes_;
    return AddTo(with_storages, op.workspace, "workspace");
  };
  if (const Status status = check(); !status) return Within(At(OpId(index)), status.error());
  return CheckYields(OpId(index));
}

Status Checker::CheckYields(OpId op) {
  for (const TensorId id : graph_.op(op).outputs) {
    if (yielder_[id.index()].valid()) {
      return Fail("{}: yields tensor {}, which {} already yields", At(op), id.value, At(yielder_[id.index()]));
    }
    yielder_[id.index()] = op;
    OpId& producer = producer_[graph_.tensor(id).storage.index()];
    if (!producer.valid()) producer = op;
  }
  return {};
}

// What an op touches, in the state that the ops before it left.
Status Checker::CheckUses(std::size_t index) {
  const OpId id(index);
  const Op& op = graph_.ops[index];
  const auto check_alive = [&](TensorId tensor) -> Status {
    const StorageId storage = graph_.tensor(tensor).storage;
    const OpId released = graph_.storage(storage).released_after;
    if (!released.valid() || released >= id) return {};
    return Fail("{}: touches {}, which is released after {}", At(id), At(storage), At(released));
  };
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    EBB_RETURN_IF_ERROR(CheckRead(id, i));
    EBB_RETURN_IF_ERROR(check_alive(op.inputs[i]));
  }
  for (const TensorId output : op.outputs) {
    const StorageId storage = graph_.tensor(output).storage;
    const bool given = holder_[storage.index()] == id;
    if (IsPersistentTensor(output) && !given) {
      return Fail("{}: yields a tensor of {}, which exists before the step, without reading one", At(id), At(storage));
    }
    if (!given && producer_[storage.index()] != id) {
      return Fail("{}: yields a tensor of {}, which {} already produces, without reading one", At(id), At(storage),
                  At(producer_[storage.index()]));
    }
    EBB_RETURN_IF_ERROR(check_alive(output));
  }
  for (const TensorId mutated : op.mutated) {
    if (reader_[mutated.index()] != id) {
      return Fail("{}: mutates tensor {}, which is not among its inputs", At(id), mutated.value);
    }
    if (mutator_[mutated.index()] == id) return Fail("{}: lists tensor {} twice in mutated", At(id), mutated.value);
    mutator_[mutated.index()] = id;
  }
  return CheckArguments(id);
}

Status Checker::CheckRead(OpId op, std::size_t which) {
  const TensorId id = graph_.op(op).inputs[which];
  const OpId yielder = yielder_[id.index()];
  if (yielder.valid() && yielder >= op) {
    EBB_RETURN_IF_ERROR(CheckNoCycle(graph_, yielder_));
    return Fail("{}: inputs[{}]: tensor {} is yielded only later, by {}; ops stand in execution order", At(op), which,
                id.value, At(yielder));
  }
  if (!yielder.valid() && !IsPersistentTensor(id)) {
    return Fail("{}: inputs[{}]: no op yields tensor {}, and {} does not exist before the step", At(op), which,
                id.value, At(graph_.tensor(id).storage));
  }
  if (reader_[id.index()] == op) return Fail("{}: lists tensor {} twice in inputs", At(op), id.value);
  reader_[id.index()] = op;
  holder_[graph_.tensor(id).storage.index()] = op;
  return {};
}

Status Checker::CheckArguments(OpId op) {
  const std::vector<Argument>& arguments = graph_.op(op).arguments;
  if (arguments.size() > kMostArguments) {
    return Fail("{}: expected at most {} arguments, found {}", At(op), kMostArguments, arguments.size());
  }
  for (const Argument& argument : arguments) {
    Status status = CheckText(argument.name, "name");
    if (status) status = std::visit([&](const auto& value) { return CheckValue(op, value); }, argument.value);
    if (!status) return Within(fmt::format("{}: argument {}", At(op), Quoted(argument.name)), status.error());
  }
  if (const auto* twice = FindRepeatedName(arguments)) {
    return Fail("{}: argument {} appears twice", At(op), Quoted(*twice));
  }
  return {};
}

Status Checker::CheckValue(OpId, const std::string& text) const { return CheckText(text, "value"); }

Status Checker::CheckValue(OpId op, TensorId id) const {
  EBB_RETURN_IF_ERROR(CheckTensorNumber(id));
  if (reader_[id.index()] == op || yielder_[id.index()] == op) return {};
  return Fail("tensor {} is neither among the inputs nor the outputs", id.value);
}

Status Checker::CheckValue(OpId op, const TensorList& list) const {
  for (const TensorId id : list.ids) {
    if (id.valid()) EBB_RETURN_IF_ERROR(CheckValue(op, id));
  }
  return {};
}

Status Checker::CheckValue(OpId, ScalarId id) const {
  if (id.valid() && id.index() < graph_.scalars.size()) return {};
  return Fail("expected a scalar number below {}, found {}", graph_.scalars.size(), id.value);
}

Status Checker::CheckValue(OpId op, const ScalarList& list) const {
  for (const ScalarId id : list.ids) EBB_RETURN_IF_ERROR(CheckValue(op, id));
  return {};
}

Status Checker::CheckValue(OpId, const Named& named) const {
  static constexpr std::string_view kTypes[] = {"dtype", "device", "layout", "memory_format"};
  if (std::find(std::begin(kTypes), std::end(kTypes), named.type) == std::end(kTypes)) {
    return Fail("expected a dtype, device, layout or memory_format, found {}", Quoted(named.type));
  }
  return CheckText(named.value, "value");
}

Status Checker::CheckOutputs() {
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const TensorId id = graph_.outputs[i];
    const std::string place = fmt::format("outputs[{}]", i);
    if (const Status status = CheckTensorNumber(id); !status) return Within(place, status.error());
    const StorageId storage = graph_.tensor(id).storage;
    if (!yielder_[id.index()].valid() && !IsPersistentTensor(id)) {
      return Fail("{}: no op yields tensor {}, and {} does not exist before the step", place, id.value, At(storage));
    }
    if (graph_.storage(storage).released_after.valid()) {
      return Fail("{}: {} is an output of the graph, yet has a released_after", place, At(storage));
    }
  }
  return {};
}

Status Checker::CheckProduced(std::size_t index) {
  if (producer_[index].valid() || IsPersistent(graph_.storages[index].kind)) return {};
  return Fail("{}: no op produces it", At(StorageId(index)));
}

}  // namespace

Status Check(const TrainingGraph& graph) { return Checker(graph).CheckAll(); }

}  // namespace ebbtide
