// Hands a graph to a library of kernels as the C interface wants it, and moves the user's state.
#include "run/engine/kernels.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <deque>

#include "graph/liveness.h"

namespace ebbtide::run {
namespace {

// The graph in C's words. What they point to is kept here, or is the graph's.
class Description {
 public:
  Description(const TrainingGraph& graph, const std::string& device) : graph_(graph), device_(device) {}

  Result<EbbtideProgram> Describe() {
    std::vector<bool> made(graph_.tensors.size(), false);
    for (const Op& op : graph_.ops) {
      for (const TensorId id : op.outputs) made[id.index()] = true;
    }
    const std::vector<Lifetime> lifetimes = ComputeLiveness(graph_);
    for (std::size_t s = 0; s < graph_.storages.size(); ++s) {
      bytes_.push_back(graph_.storages[s].bytes);
      born_.push_back(lifetimes[s].persistent ? -1 : static_cast<std::int64_t>(lifetimes[s].born.index()));
    }
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& tensor = graph_.tensors[i];
      tensors_.push_back({static_cast<std::int64_t>(tensor.storage.index()), Text(std::string(Name(tensor.dtype))),
                          tensor.shape.data(), tensor.stride.data(), tensor.shape.size(), tensor.offset, made[i]});
    }
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) EBB_RETURN_IF_ERROR(AddOp(i));
    return EbbtideProgram{ops_.data(),   ops_.size(),  tensors_.data(), tensors_.size(),
                          bytes_.data(), born_.data(), bytes_.size(),   device_.c_str()};
  }

 private:
  const char* Text(std::string text) { return texts_.emplace_back(std::move(text)).c_str(); }
  const std::int64_t* Numbers(std::vector<std::int64_t> numbers) {
    return numbers_.emplace_back(std::move(numbers)).data();
  }

  Status AddOp(std::size_t i) {
    const Op& op = graph_.ops[i];
    const std::size_t dot = op.schema.rfind('.');
    if (dot == std::string::npos)
      return Fail("op {} ({}): cannot be run, it has no schema; expected a captured graph", i, op.kind);
    std::string overload = op.schema.substr(dot + 1);
    if (overload == "default") overload.clear();
    std::vector<EbbtideValue>& values = values_.emplace_back();
    for (const Argument& argument : op.arguments) values.push_back(ValueOf(argument.value));
    std::vector<std::int64_t> outputs;
    bool only_views = !op.outputs.empty() && op.mutated.empty();
    for (const TensorId id : op.outputs) {
      outputs.push_back(static_cast<std::int64_t>(id.index()));
      if (born_[graph_.tensor(id).storage.index()] == static_cast<std::int64_t>(i)) only_views = false;
    }
    const std::size_t count = outputs.size();
    ops_.push_back({Text(op.schema.substr(0, dot)), Text(std::move(overload)), op.phase == Phase::kForward, only_views,
                    values.data(), values.size(), Numbers(std::move(outputs)), count});
    return {};
  }

  EbbtideValue ValueOf(const Value& value) {
    EbbtideValue out{};
    std::visit([&](const auto& v) { Fill(out, v); }, value);
    return out;
  }
  void Fill(EbbtideValue& out, std::monostate) { out.kind = EBBTIDE_NONE; }
  void Fill(EbbtideValue& out, bool v) { out.kind = EBBTIDE_BOOL, out.integer = v; }
  void Fill(EbbtideValue& out, std::int64_t v) { out.kind = EBBTIDE_INTEGER, out.integer = v; }
  void Fill(EbbtideValue& out, double v) { out.kind = EBBTIDE_REAL, out.real = v; }
  void Fill(EbbtideValue& out, const std::string& v) { out.kind = EBBTIDE_STRING, out.text = v.c_str(); }
  void Fill(EbbtideValue& out, const Dims& v) {
    out.kind = EBBTIDE_INTEGERS, out.integers = v.data(), out.count = v.size();
  }
  void Fill(EbbtideValue& out, const std::vector<double>& v) {
    out.kind = EBBTIDE_REALS, out.reals = v.data(), out.count = v.size();
  }
  void Fill(EbbtideValue& out, const std::vector<bool>& v) {
    out.kind = EBBTIDE_INTEGERS, out.count = v.size();
    out.integers = Numbers({v.begin(), v.end()});
  }
  void Fill(EbbtideValue& out, TensorId v) {
    out.kind = EBBTIDE_TENSOR, out.integer = static_cast<std::int64_t>(v.index());
  }
  void Fill(EbbtideValue& out, const TensorList& v) { FillIds(out, EBBTIDE_TENSORS, v.ids); }
  void Fill(EbbtideValue& out, ScalarId v) {
    out.kind = EBBTIDE_SCALAR, out.integer = static_cast<std::int64_t>(v.index());
  }
  void Fill(EbbtideValue& out, const ScalarList& v) { FillIds(out, EBBTIDE_SCALARS, v.ids); }
  void Fill(EbbtideValue& out, const Named& v) {
    out.kind = EBBTIDE_NAMED, out.type = v.type.c_str(), out.text = v.value.c_str();
  }
  template <class Ids>
  void FillIds(EbbtideValue& out, int kind, const Ids& ids) {
    std::vector<std::int64_t> numbers;
    for (const auto id : ids) numbers.push_back(id.valid() ? static_cast<std::int64_t>(id.index()) : -1);
    out.kind = kind, out.count = numbers.size();
    out.integers = Numbers(std::move(numbers));
  }

  const TrainingGraph& graph_;
  const std::string& device_;
  std::deque<std::string> texts_;  // of deques the members keep their places
  std::deque<std::vector<std::int64_t>> numbers_;
  std::deque<std::vector<EbbtideValue>> values_;
  std::vector<EbbtideOp> ops_;
  std::vector<EbbtideTensor> tensors_;
  std::vector<std::int64_t> bytes_, born_;
};

std::string Line(const std::array<char, EBBTIDE_ERROR_BYTES>& error) {
  const std::string text(error.data());
  return text.substr(0, text.find('\n'));
}

}  // namespace

Result<const EbbtideKernels*> LoadKernels(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return Fail("{}: cannot be loaded: {}", path, dlerror());
  const auto entry = reinterpret_cast<EbbtideKernelsEntry>(dlsym(library, EBBTIDE_KERNELS_ENTRY));
  if (!entry) return Fail("{}: expected a library of kernels", path);
  const EbbtideKernels* const kernels = entry();
  if (kernels->version != EBBTIDE_KERNELS_VERSION) {
    return Fail("{}: version {} of the border to the engine; expected {}", path, kernels->version,
                EBBTIDE_KERNELS_VERSION);
  }
  return kernels;
}

Result<std::unique_ptr<Kernels>> Kernels::Make(const EbbtideKernels* library, const TrainingGraph& graph,
                                               const std::string& device) {
  Description description(graph, device);
  EBB_ASSIGN_OR_RETURN(const EbbtideProgram program, description.Describe());
  std::array<char, EBBTIDE_ERROR_BYTES> error{};
  EbbtideKernelsProgram* made = nullptr;
  if (library->create(&program, &made, error.data()) != 0) return Fail("{}", Line(error));
  return std::unique_ptr<Kernels>(new Kernels(library, made, graph));
}

Kernels::Kernels(const EbbtideKernels* library, EbbtideKernelsProgram* program, const TrainingGraph& graph)
    : library_(library), program_(program), attached_(graph.storages.size(), false) {
  std::size_t most = 0;
  for (const Op& op : graph.ops) most = std::max(most, op.outputs.size());
  made_.resize(most);
}

Kernels::~Kernels() { library_->destroy(program_); }

RunStatus Kernels::Run(OpId op, std::span<const double> scalars, OpMemory& memory, std::vector<Made>& made) {
  const EbbtideMemory access{
      .context = &memory,
      .allocate = [](void* context, std::size_t bytes) { return static_cast<OpMemory*>(context)->Allocate(bytes); },
      .release = [](void* context, void* address) -> std::int32_t {
        return static_cast<OpMemory*>(context)->Release(address);
      },
  };
  std::array<char, EBBTIDE_ERROR_BYTES> error{};
  std::size_t count = 0;
  const std::int32_t code =
      library_->run(program_, op.value, scalars.data(), &access, made_.data(), &count, error.data());
  if (code != 0) {
    return tl::unexpected<Failure>(Failure{code == EBBTIDE_FAILED_OUT_OF_MEMORY ? Failure::Kind::kOutOfMemory
                                           : code == EBBTIDE_FAILED_KEPT        ? Failure::Kind::kKept
                                                                                : Failure::Kind::kOther,
                                           Line(error)});
  }
  made.clear();
  for (std::size_t i = 0; i < count; ++i) {
    made.push_back({StorageId(static_cast<std::size_t>(made_[i].storage)), static_cast<std::byte*>(made_[i].address),
                    made_[i].bytes});
  }
  return {};
}

void Kernels::Bind(StorageId storage, std::byte* at) {
  if (!attached_[storage] || at == nullptr) return library_->bind(program_, storage.value, at);
  // The user's tensors keep the pool for as long as they lie in it.
  library_->move(program_, storage.value, at, new std::shared_ptr<Device>(device_),
                 [](void* owner) { delete static_cast<std::shared_ptr<Device>*>(owner); });
}

Status Kernels::Ready(Device& device) {
  std::array<char, EBBTIDE_ERROR_BYTES> error{};
  void* stream = nullptr;
  if (library_->ready(program_, &stream, error.data()) != 0) return Fail("{}", Line(error));
  device.SetCompute(stream);
  return {};
}

Status Kernels::Attach(StorageId storage, void* storage_impl) {
  std::array<char, EBBTIDE_ERROR_BYTES> error{};
  if (library_->attach(program_, storage.value, storage_impl, error.data()) != 0) return Fail("{}", Line(error));
  attached_[storage] = true;
  return {};
}

Result<int> Kernels::MoveIn(const std::shared_ptr<Device>& device, const IdVector<StorageId, Bytes>& home) {
  int moved = 0;
  device_ = device;
  for (const StorageId s : home.ids()) {
    if (home[s] < 0) continue;
    std::byte* const at = device->At(home[s]);
    if (!attached_[s]) {
      Bind(s, at);
      continue;
    }
    std::int64_t bytes = 0;
    const void* const now = library_->address(program_, s.value, &bytes);
    if (now == at || bytes == 0) continue;
    EBB_RETURN_IF_ERROR(device->Write(static_cast<const std::byte*>(now), home[s], bytes));
    Bind(s, at);
    ++moved;
  }
  return moved;
}

Status Kernels::MoveOut(Device& device, const IdVector<StorageId, Bytes>& home) {
  std::array<char, EBBTIDE_ERROR_BYTES> error{};
  for (const StorageId s : home.ids()) {
    if (home[s] < 0 || !attached_[s]) continue;
    std::int64_t bytes = 0;
    if (library_->address(program_, s.value, &bytes) != device.At(home[s]) || bytes == 0) continue;
    if (library_->move_out(program_, s.value, error.data()) != 0) return Fail("{}", Line(error));
  }
  return {};
}

}  // namespace ebbtide::run
