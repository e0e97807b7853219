// Torch's kernels for the engine: the ops of a graph through the dispatcher, below autograd, on storages whose memory
// the engine decides about. Compiled for the torch of the user (torch_library.py); the border is
// run/engine/kernels_abi.h.
//
// The tensors of the graph are made once, by the first run of the ops that yield them, and kept: memory comes and goes
// below them (Bind), so views need not be made again.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.h"
#include "cuda.h"
#include "memory.h"

struct EbbtideKernelsProgram {
  struct Op {
    c10::OperatorHandle handle;
    std::vector<ebbtide::torch_kernels::Argument> arguments;
    std::vector<int64_t> outputs;
    bool is_forward, only_views;
    bool is_torchs;  // one of torch's own, which keep nothing that they are given
  };
  struct Tensor {
    int64_t storage;
    at::ScalarType dtype;
    std::vector<int64_t> shape, stride;
    int64_t offset;
    bool made;
  };
  std::vector<Op> ops;
  std::vector<Tensor> shapes;
  std::vector<int64_t> bytes, born;    // by storage
  std::vector<at::Tensor> tensors;     // undefined: not made yet
  std::vector<c10::Storage> storages;  // null: not made yet
  std::vector<bool> attached;          // by storage: it is the user's
  c10::Device device = c10::DeviceType::CPU;
};

namespace ebbtide::torch_kernels {

const CudaSide* cuda_side = nullptr;

namespace {

using Program = EbbtideKernelsProgram;

void Nothing(void*) {}

c10::DataPtr Borrowed(void* address, c10::Device device) { return {address, address, &Nothing, device}; }

c10::Storage NewStorage(int64_t bytes, c10::Device device) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                            static_cast<size_t>(bytes), Borrowed(nullptr, device),
                                                            /*allocator=*/nullptr, /*resizable=*/false));
}

// The tensor of the graph's shape on its storage.
void MakeTensor(Program& program, std::size_t n) {
  const Program::Tensor& shape = program.shapes[n];
  c10::Storage& storage = program.storages[static_cast<std::size_t>(shape.storage)];
  if (!storage) storage = NewStorage(program.bytes[static_cast<std::size_t>(shape.storage)], program.device);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage),
      c10::DispatchKeySet(program.device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(shape.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(shape.shape, shape.stride, shape.offset);
  program.tensors[n] = std::move(tensor);
}

// Of the namespaces whose ops are known to be functions of their arguments and the random state. See also
// capture/record.py.
bool IsTorchs(const std::string& name) {
  for (const char* const space : {"aten::", "prims::", "torchvision::", "ebbtide::"}) {
    if (name.rfind(space, 0) == 0) return true;
  }
  return false;
}

// Something that outlives an op lies in memory of the pool.
struct Kept : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class Function>
int32_t Guarded(char* error, Function function) {
  int32_t code = EBBTIDE_FAILED;
  std::string message;
  try {
    function();
    return 0;
  } catch (const c10::OutOfMemoryError& e) {
    code = EBBTIDE_FAILED_OUT_OF_MEMORY;
    message = e.what_without_backtrace();
  } catch (const c10::Error& e) {
    message = e.what_without_backtrace();
  } catch (const Kept& e) {
    code = EBBTIDE_FAILED_KEPT;
    message = e.what();
  } catch (const std::exception& e) {
    message = e.what();
  } catch (...) {
    message = "an unknown exception";
  }
  std::strncpy(error, message.c_str(), EBBTIDE_ERROR_BYTES - 1);
  return code;
}

std::mutex users_mutex;
std::map<const c10::StorageImpl*, std::set<const Program*>> users;  // by storage of the user's: programs that have it

int32_t Create(const EbbtideProgram* graph, Program** out, char* error) {
  return Guarded(error, [&] {
    auto program = std::make_unique<Program>();
    program->device = c10::Device(graph->device);
    if (program->device.is_cuda()) {
      TORCH_CHECK(cuda_side, "this library is for the cpu; expected the one for cuda");
      if (!program->device.has_index()) program->device.set_index(0);
      cuda_side->install();
    } else {
      InstallAllocator();
    }
    for (std::size_t i = 0; i < graph->op_count; ++i) {
      const EbbtideOp& op = graph->ops[i];
      const c10::OperatorHandle handle = c10::Dispatcher::singleton().findSchemaOrThrow(op.name, op.overload);
      const auto& schema = handle.schema().arguments();
      TORCH_CHECK(schema.size() == op.argument_count, "op ", i, " (", op.name, "): ", op.argument_count,
                  " arguments; expected ", schema.size());
      std::vector<Argument> arguments;
      for (std::size_t a = 0; a < schema.size(); ++a) {
        try {
          arguments.emplace_back(op.arguments[a], schema[a]);
        } catch (const c10::Error& e) {
          TORCH_CHECK(false, "op ", i, " (", op.name, "), argument ", schema[a].name(), ": ",
                      e.what_without_backtrace());
        }
      }
      program->ops.push_back({handle,
                              std::move(arguments),
                              {op.outputs, op.outputs + op.output_count},
                              op.is_forward != 0,
                              op.only_views != 0,
                              IsTorchs(handle.schema().name())});
    }
    for (std::size_t i = 0; i < graph->tensor_count; ++i) {
      const EbbtideTensor& t = graph->tensors[i];
      program->shapes.push_back({t.storage,
                                 ScalarTypeOf(t.dtype),
                                 {t.shape, t.shape + t.dimensions},
                                 {t.stride, t.stride + t.dimensions},
                                 t.offset,
                                 t.made != 0});
    }
    program->bytes.assign(graph->storage_bytes, graph->storage_bytes + graph->storage_count);
    program->born.assign(graph->storage_born, graph->storage_born + graph->storage_count);
    program->tensors.resize(graph->tensor_count);
    program->storages.resize(graph->storage_count);
    program->attached.resize(graph->storage_count, false);
    for (std::size_t n = 0; n < program->shapes.size(); ++n) {
      if (!program->shapes[n].made) MakeTensor(*program, n);
    }
    *out = program.release();
  });
}

void Destroy(Program* program) {
  {
    const std::lock_guard lock(users_mutex);
    for (auto user = users.begin(); user != users.end();) {
      user->second.erase(program);
      user = user->second.empty() ? users.erase(user) : std::next(user);
    }
  }
  delete program;
}

// The op has made it on another device than all else, where it stays as torch has it; the next time it is another.
void TakeForeign(Program& program, std::size_t s, const c10::Storage& storage) {
  program.storages[s] = storage;
  for (std::size_t n = 0; n < program.shapes.size(); ++n) {
    if (program.shapes[n].storage == static_cast<int64_t>(s)) program.tensors[n] = at::Tensor();
  }
}

// The tensors that a call has left on the stack, lists taken apart, undefined ones left out.
std::vector<at::Tensor> Results(const std::vector<c10::IValue>& stack) {
  std::vector<at::Tensor> out;
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) out.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) out.push_back(tensor);
    }
  }
  return out;
}

// What one of the user's own ops is given and gives, and who refers to its memory. It sees other tensors on the same
// storages than the program has: who keeps one of them keeps a reference to the storage.
class Foreign {
 public:
  Foreign(const Program& program, const Program::Op& op) : program_(program) {
    if (op.is_torchs) return;
    tensors_ = program.tensors;
    for (const Argument& argument : op.arguments) {
      for (const int64_t n : argument.tensors()) {
        if (n < 0 || !tensors_[static_cast<std::size_t>(n)].defined()) continue;
        at::Tensor& tensor = tensors_[static_cast<std::size_t>(n)];
        const std::size_t s = static_cast<std::size_t>(program.shapes[static_cast<std::size_t>(n)].storage);
        if (!program.attached[s]) before_.emplace(s, tensor.storage().use_count());
        tensor = tensor.detach();
      }
    }
  }

  const std::vector<at::Tensor>& tensors(const Program::Op& op) const {
    return op.is_torchs ? program_.tensors : tensors_;
  }

  // After the call, when `results` alone are left of it: the storages of the graph that somebody has kept.
  std::set<std::size_t> Kept(const Program::Op& op, std::vector<at::Tensor>& results) {
    tensors_.clear();
    for (at::Tensor& result : results) result = result.detach();
    std::map<const c10::StorageImpl*, std::size_t> own;
    for (const at::Tensor& result : results) ++own[result.storage().unsafeGetStorageImpl()];
    std::set<std::size_t> out;
    for (const auto& [s, count] : before_) {
      const c10::Storage& storage = program_.storages[s];
      if (storage.use_count() > count + own[storage.unsafeGetStorageImpl()]) out.insert(s);
    }
    for (std::size_t i = 0; i < results.size() && i < op.outputs.size(); ++i) {
      const std::size_t s = static_cast<std::size_t>(program_.shapes[static_cast<std::size_t>(op.outputs[i])].storage);
      const c10::Storage& storage = results[i].storage();
      if (program_.attached[s] || before_.contains(s)) continue;
      if (storage.use_count() > own[storage.unsafeGetStorageImpl()]) out.insert(s);
    }
    return out;
  }

 private:
  const Program& program_;
  std::vector<at::Tensor> tensors_;
  std::map<std::size_t, std::size_t> before_;  // by storage that the op is given: references to it
};

// Whoever kept the storage has it from now on; the program makes another.
void LeaveToOthers(Program& program, std::size_t s) {
  program.storages[s] = c10::Storage();
  for (std::size_t n = 0; n < program.shapes.size(); ++n) {
    if (program.shapes[n].storage != static_cast<int64_t>(s)) continue;
    program.tensors[n] = at::Tensor();
    if (!program.shapes[n].made) MakeTensor(program, n);
  }
}

// Raises where anything of the pool outlives the call beside its results.
void CheckNothingIsKept(Program& program, const Program::Op& op, Foreign& foreign, std::vector<at::Tensor>& results) {
  static const char* const text =
      "keeps a tensor, or memory of one, when it has returned; it lies in the pool and will be overwritten; expected "
      "an op "
      "that keeps nothing";
  bool kept = false;
  if (!op.is_torchs) {
    for (const std::size_t s : foreign.Kept(op, results)) {
      kept = true;
      LeaveToOthers(program, s);
    }
  }
  if (!program.device.is_cuda()) {
    std::vector<const void*> addresses;
    for (const at::Tensor& result : results) addresses.push_back(result.storage().data());
    kept = kept || HeldBeside(addresses) > 0;
  }
  if (kept) throw Kept(text);
}

int32_t Run(Program* program, int64_t number, const double* scalars, const EbbtideMemory* memory, EbbtideMade* made,
            size_t* made_count, char* error) {
  *made_count = 0;
  const Program::Op& op = program->ops[static_cast<std::size_t>(number)];
  if (op.only_views) {
    bool known = true;
    for (const int64_t n : op.outputs) known = known && program->tensors[static_cast<std::size_t>(n)].defined();
    if (known) return 0;
  }
  return Guarded(error, [&] {
    const InMemory in_memory(memory, program->device);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::impl::ExcludeDispatchKeyGuard no_modes(
        c10::autocast_dispatch_keyset |
        c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
    const c10::AutoGradMode grad_mode(op.is_forward);
    Foreign foreign(*program, op);
    std::vector<c10::IValue> stack;
    stack.reserve(op.arguments.size());
    for (const Argument& argument : op.arguments) stack.push_back(argument.Value(foreign.tensors(op), scalars));
    op.handle.callBoxed(stack);
    std::vector<at::Tensor> results = Results(stack);
    stack.clear();
    CheckNothingIsKept(*program, op, foreign, results);
    TORCH_CHECK(results.size() == op.outputs.size(), results.size(), " results; expected ", op.outputs.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::size_t n = static_cast<std::size_t>(op.outputs[i]);
      const std::size_t s = static_cast<std::size_t>(program->shapes[n].storage);
      if (program->born[s] == number) {
        bool listed = false;
        for (std::size_t m = 0; m < *made_count; ++m) listed = listed || made[m].storage == static_cast<int64_t>(s);
        if (!listed) {
          const c10::Storage& storage = results[i].storage();
          if (storage.device() != program->device) {
            made[(*made_count)++] = {static_cast<int64_t>(s), nullptr, 0};
            TakeForeign(*program, s, storage);
            program->tensors[n] = results[i];
            continue;
          }
          made[(*made_count)++] = {static_cast<int64_t>(s), const_cast<void*>(storage.data()),
                                   static_cast<int64_t>(storage.nbytes())};
          if (!program->storages[s]) program->storages[s] = storage;
        }
      }
      if (!program->tensors[n].defined()) program->tensors[n] = std::move(results[i]);
    }
    TORCH_CHECK(!program->device.is_cuda() || cuda_side->held() <= static_cast<int64_t>(*made_count),
                "a library keeps memory of the pool after the op");
  });
}

void Bind(Program* program, int64_t storage, void* address) {
  const c10::Storage& bound = program->storages[static_cast<std::size_t>(storage)];
  if (bound && bound.device() == program->device) bound.set_data_ptr_noswap(Borrowed(address, program->device));
}

// Whether the op wants the tensor in the CPU's memory although all else is on a GPU: numbers that it reads itself.
bool IsForeign(const Program& program, const Program::Op& op, std::size_t argument) {
  return program.device.is_cuda() &&
         op.handle.schema().name().find("efficient_attention_backward") != std::string::npos &&
         op.handle.schema().arguments()[argument].name().rfind("philox_", 0) == 0;
}

void Pretend(Program* program, int64_t number) {
  const Program::Op& op = program->ops[static_cast<std::size_t>(number)];
  for (std::size_t a = 0; a < op.arguments.size(); ++a) {
    for (const int64_t n : op.arguments[a].tensors()) {
      const std::size_t tensor = static_cast<std::size_t>(n);
      if (n < 0 || program->tensors[tensor].defined()) continue;
      if (IsForeign(*program, op, a)) {
        const Program::Tensor& shape = program->shapes[tensor];
        const at::Tensor made = at::zeros(shape.shape, at::TensorOptions().dtype(shape.dtype));
        TakeForeign(*program, static_cast<std::size_t>(shape.storage), made.storage());
        program->tensors[tensor] = made;
      } else {
        MakeTensor(*program, tensor);
      }
    }
  }
}

int32_t Attach(Program* program, int64_t number, void* storage_impl, char* error) {
  return Guarded(error, [&] {
    const std::size_t s = static_cast<std::size_t>(number);
    if (program->storages[s] && program->storages[s].unsafeGetStorageImpl() == storage_impl) return;
    c10::Storage storage(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(static_cast<c10::StorageImpl*>(storage_impl)));
    TORCH_CHECK(storage.device() == program->device, "a tensor is on ", storage.device(), "; expected ",
                program->device);
    TORCH_CHECK(static_cast<int64_t>(storage.nbytes()) == program->bytes[s], "a storage of ", storage.nbytes(),
                " bytes; expected ", program->bytes[s]);
    {
      const std::lock_guard lock(users_mutex);
      if (program->attached[s]) users[program->storages[s].unsafeGetStorageImpl()].erase(program);
      users[storage.unsafeGetStorageImpl()].insert(program);
    }
    program->storages[s] = std::move(storage);
    program->attached[s] = true;
    for (std::size_t n = 0; n < program->shapes.size(); ++n) {
      if (program->shapes[n].storage != number) continue;
      program->tensors[n] = at::Tensor();  // views are made again
      if (!program->shapes[n].made) MakeTensor(*program, n);
    }
  });
}

void* Address(Program* program, int64_t storage, int64_t* bytes) {
  const c10::Storage& at = program->storages[static_cast<std::size_t>(storage)];
  *bytes = at ? static_cast<int64_t>(at.nbytes()) : 0;
  return at ? at.unsafeGetStorageImpl()->mutable_data() : nullptr;
}

// ---- The user's memory. Who has taken an address of it, as a NumPy array does, is not told when it moves: where
// somebody but the user's own tensor refers to the storage, memory of the CPU that it leaves is kept, and is its own
// again later.

// Memory of the pool that a storage of the user's lies in.
struct InPool {
  void* owner;
  void (*release)(void* owner);
  c10::DataPtr before;  // torch's, that it will go back to; null: it was let go
  static void LetGo(void* context) {
    const std::unique_ptr<InPool> gone(static_cast<InPool*>(context));
    gone->release(gone->owner);
  }
};

// Memory of torch's own, and the pool that the storage was in before.
struct OutOfPool {
  c10::DataPtr memory, pool;
  static void LetGo(void* context) { delete static_cast<OutOfPool*>(context); }
};

// Whether anybody refers to the storage but one tensor of the user's, its storage as Python has it, and programs.
bool IsLookedAt(const c10::Storage& storage) {
  std::size_t known = 2;
  const std::lock_guard lock(users_mutex);
  for (const Program* const program : users[storage.unsafeGetStorageImpl()]) {  // of one step: none of them runs
    for (const c10::Storage& held : program->storages) {
      if (held && held.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) ++known;
    }
    for (std::size_t n = 0; n < program->tensors.size(); ++n) {
      if (!program->attached[static_cast<std::size_t>(program->shapes[n].storage)]) continue;
      const at::Tensor& tensor = program->tensors[n];
      if (tensor.defined() && tensor.storage().unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) ++known;
    }
  }
  return storage.use_count() > known;
}

void Move(Program* program, int64_t number, void* address, void* owner, void (*release)(void*)) {
  const c10::Storage& storage = program->storages[static_cast<std::size_t>(number)];
  auto in_pool = std::make_unique<InPool>(InPool{owner, release, {}});
  const c10::DataPtr& now = storage.unsafeGetStorageImpl()->data_ptr();
  const bool was_in_pool = now.get_deleter() == &InPool::LetGo;
  const bool keeps = !was_in_pool && !program->device.is_cuda() && IsLookedAt(storage);
  InPool* const made = in_pool.release();
  c10::DataPtr old = storage.unsafeGetStorageImpl()->set_data_ptr({address, made, &InPool::LetGo, program->device});
  if (was_in_pool) made->before = std::move(static_cast<InPool*>(old.get_context())->before);
  if (keeps) made->before = std::move(old);
}

int32_t MoveOut(Program* program, int64_t number, char* error) {
  return Guarded(error, [&] {
    const c10::Storage& at = program->storages[static_cast<std::size_t>(number)];
    c10::Allocator* const allocator = program->device.is_cuda() ? cuda_side->allocator() : c10::GetCPUAllocator();
    const c10::DataPtr& now = at.unsafeGetStorageImpl()->data_ptr();
    c10::DataPtr memory;
    if (now.get_deleter() == &InPool::LetGo) memory = std::move(static_cast<InPool*>(now.get_context())->before);
    if (!memory) memory = allocator->allocate(at.nbytes());
    if (program->device.is_cuda()) {
      cuda_side->copy(memory.get(), at.data(), at.nbytes(), program->device);  // the pool's may be another's next
      at.set_data_ptr_noswap(std::move(memory));
      return;
    }
    allocator->copy_data(memory.get(), at.data(), at.nbytes());
    if (!IsLookedAt(at)) return at.set_data_ptr_noswap(std::move(memory));
    if (memory.get_deleter() == &OutOfPool::LetGo)  // the pool that it was in last is the one to keep
      memory = std::move(static_cast<OutOfPool*>(memory.get_context())->memory);
    void* const address = memory.get();
    auto both = std::make_unique<OutOfPool>(OutOfPool{std::move(memory), {}});
    OutOfPool* const made = both.release();
    made->pool = at.unsafeGetStorageImpl()->set_data_ptr({address, made, &OutOfPool::LetGo, program->device});
  });
}

// Those that ops of the program may draw from.
std::vector<at::Generator> Generators(const Program& program) {
  std::vector<at::Generator> out{at::detail::getDefaultCPUGenerator()};
  if (program.device.is_cuda()) out.push_back(at::globalContext().defaultGenerator(program.device));
  return out;
}

at::Tensor RandomState(at::Generator& generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

size_t RandomBytes(Program* program) {
  size_t bytes = 0;
  for (at::Generator& generator : Generators(*program)) bytes += RandomState(generator).nbytes();
  return bytes;
}

void RandomSave(Program* program, void* to) {
  for (at::Generator& generator : Generators(*program)) {
    const at::Tensor state = RandomState(generator);
    std::memcpy(to, state.const_data_ptr(), state.nbytes());
    to = static_cast<char*>(to) + state.nbytes();
  }
}

void RandomLoad(Program* program, const void* from) {
  for (at::Generator& generator : Generators(*program)) {
    const at::Tensor state = at::detail::empty_cpu({RandomState(generator).numel()}, at::kByte);
    std::memcpy(state.mutable_data_ptr(), from, state.nbytes());
    from = static_cast<const char*>(from) + state.nbytes();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }
}

// Products of matrices, so that cuBLAS takes the memory that it keeps for each thread and stream.
void WarmUp(c10::Device device) {
  const at::InferenceMode guard;
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    const at::Tensor a = at::zeros({64, 64}, at::TensorOptions().device(device).dtype(type));
    at::mm(a, a);
    at::addmm(a.select(0, 0), a, a);
    at::bmm(a.unsqueeze(0), a.unsqueeze(0));
  }
}

int32_t Ready(Program* program, void** stream, char* error) {
  *stream = nullptr;
  if (!program->device.is_cuda()) return 0;
  return Guarded(error, [&] {
    *stream = cuda_side->stream(program->device);
    static thread_local std::set<void*> warm;
    if (!warm.insert(*stream).second) return;
    const c10::impl::ExcludeDispatchKeyGuard no_modes(
        c10::autocast_dispatch_keyset |
        c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
    WarmUp(program->device);
  });
}

constexpr EbbtideKernels kKernels{EBBTIDE_KERNELS_VERSION,
                                  Create,
                                  Destroy,
                                  Run,
                                  Bind,
                                  Pretend,
                                  Attach,
                                  Address,
                                  Move,
                                  MoveOut,
                                  Ready,
                                  RandomBytes,
                                  RandomSave,
                                  RandomLoad};

}  // namespace
}  // namespace ebbtide::torch_kernels

extern "C" __attribute__((visibility("default"))) const EbbtideKernels* ebbtide_torch_kernels() {
  return &ebbtide::torch_kernels::kKernels;
}
