// The TrainingGraph: one iteration of a training, from the first forward op to the end of the optimizer's update.
// Start reading here: every verb of Ebbtide takes this value.
//
// Nouns
//   Storage  bytes of device memory. Placement and lifetime speak of storages.
//   Tensor   a typed view (shape, strides, offset) of a storage, produced once: an in-place op yields a new tensor
//            of the same storage.
//   Op       one framework kernel call, in execution order. Its kind is the ATen name without namespace and overload
//            ("convolution", "relu_", "_foreach_add_"), whichever front end made it.
//   Scalar   a host number that the user may change between steps (learning rate, ...). It is an input of the
//            graph, never a constant in it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "graph/dtype.h"

namespace ebbtide {

// Names as in torch's MemTracker.
enum class StorageKind : std::uint8_t {
  kParameter,
  kBuffer,
  kGradient,
  kOptimizerState,
  kInput,
  kActivation,
  kTemporary
};

// What exists before the step and outlives it; nothing in the graph produces it.
constexpr bool IsPersistent(StorageKind kind) {
  return kind == StorageKind::kParameter || kind == StorageKind::kBuffer || kind == StorageKind::kOptimizerState ||
         kind == StorageKind::kInput;
}

// Whose runtime the step runs in: it decides in which order memory is asked for, and how storages are aligned.
enum class Framework : std::uint8_t {
  kNone,
  kPytorch,
  kMxnet,
  kTensorflow
};  // kNone: a step that others have measured

// Tensors of a framework begin at multiples of 512 bytes; steps that others have measured are taken byte by byte.
constexpr Bytes AlignmentOf(Framework framework) { return framework == Framework::kNone ? 1 : 512; }

enum class Phase : std::uint8_t { kForward, kBackward, kUpdate };

struct Storage {
  Bytes bytes = 0;
  StorageKind kind = StorageKind::kActivation;
  std::string name;      // of a parameter, buffer or input: as the framework names it; else may be empty
  OpId released_after;   // the op after which the last reference is dropped, where a reference outlives the last
                         // use (a variable, a saved tensor). Invalid: the last use is the last reference.
  bool outside = false;  // lies in memory of the user's own, which no budget covers; persistent storages only

  bool operator==(const Storage&) const = default;
};

using Dims = std::vector<std::int64_t>;

struct Tensor {
  StorageId storage;
  DType dtype = DType::kFloat32;
  Dims shape;
  Dims stride;              // in elements, as many as shape
  std::int64_t offset = 0;  // in elements from the start of the storage
  std::string name;

  bool operator==(const Tensor&) const = default;
};

// Values an op is called with besides its tensors. Named values (a dtype, a device) keep what they are in `type`.
struct Named {
  std::string type;   // "dtype", "device", "layout", "memory_format"
  std::string value;  // "float32", "cuda:0", ...
  bool operator==(const Named&) const = default;
};
struct TensorList {
  std::vector<TensorId> ids;  // an invalid id is None
  bool operator==(const TensorList&) const = default;
};
struct ScalarList {
  std::vector<ScalarId> ids;  // one per tensor of a multi-tensor update
  bool operator==(const ScalarList&) const = default;
};
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, Dims, std::vector<double>,
                           std::vector<bool>, TensorId, TensorList, ScalarId, Named, ScalarList>;

struct Argument {
  std::string name;  // as in the operator's schema
  Value value;
  bool operator==(const Argument&) const = default;
};

struct Op {
  std::string kind;
  Phase phase = Phase::kForward;
  std::string layer;              // the module it belongs to ("layer1.0.conv1"); may be empty
  std::vector<TensorId> inputs;   // all tensors read, without repeats
  std::vector<TensorId> outputs;  // tensors it yields: new storages, or views of storages it was given
  std::vector<TensorId> mutated;  // those of `inputs` whose contents it changes
  std::string schema;             // "aten::convolution.default" where the op can be called; empty for built-in models
  std::vector<Argument> arguments;
  std::int64_t flops = 0;     // multiplications and additions of matrix work, counted as torch's flop counter does
  Bytes workspace = 0;        // scratch memory that lives during the op only
  Nanos time = 0;             // measured or modelled; 0: not known yet
  bool random = false;        // draws from the random state
  bool deterministic = true;  // the same inputs give the same bits

  bool operator==(const Op&) const = default;
};

struct Scalar {
  std::string name;  // "group0.lr"
  double value = 0;  // at capture
  bool operator==(const Scalar&) const = default;
};

struct TrainingGraph {
  std::string name;
  Framework framework = Framework::kNone;
  bool loss_in_model = false;      // the model computes the loss itself and returns it among its outputs
  bool makes_state_early = false;  // the optimizer makes its state with itself (Adagrad), not in its first update
  std::map<std::string, std::string> meta;  // source, device, optimizer, ...: shown to people; nothing is decided by it
  std::vector<Storage> storages;
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<Scalar> scalars;
  std::vector<TensorId> outputs;  // still referenced when the step has ended (the loss)

  bool operator==(const TrainingGraph&) const = default;

  const Storage& storage(StorageId id) const { return storages[id.index()]; }
  const Tensor& tensor(TensorId id) const { return tensors[id.index()]; }
  const Op& op(OpId id) const { return ops[id.index()]; }
  const Storage& storage_of(TensorId id) const { return storages[tensor(id).storage.index()]; }
};

}  // namespace ebbtide
