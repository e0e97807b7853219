// Tells the phantom GPU what each PyTorch operator reads and writes: a callback of at::RecordFunction around every call
// of the dispatcher. It is compiled against the torch that it is loaded into (see phantom_observer.py).
//
// An operator is declared where it has a kernel of its own; one that is made of others is left to those. What it
// mutates is in its schema, what it returns is written unless it is a view. Strided tensors are declared row by row, at
// most kMostRows of them: better to miss a race than to blame bytes that nobody touched.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "frames.h"
#include "operators.h"

namespace ebbtide_observer {
namespace {

constexpr int64_t kMostRows = 1024;

// The phantom's functions (src/phantom/core/declare.h).
struct Phantom {
  void (*begin)(const char*, const char*) = nullptr;
  void (*end)() = nullptr;
  void (*declare)(void*, const void*, size_t, int, const char*) = nullptr;
  void (*released)(const void*, size_t) = nullptr;
  void (*set_queries_order)(int) = nullptr;

  bool Find() {
    auto find = [](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
      return function != nullptr;
    };
    return find(begin, "ebbtide_phantom_begin") && find(end, "ebbtide_phantom_end") &&
           find(declare, "ebbtide_phantom_declare") && find(released, "ebbtide_phantom_released") &&
           find(set_queries_order, "ebbtide_phantom_set_queries_order");
  }
};
Phantom phantom;

struct Piece {
  const char* begin = nullptr;
  size_t bytes = 0;
  bool is_write = false;
};

// What is known of an operator.
struct Operator {
  bool declared = false;
  bool if_alone = false;  // only where no operator that it calls was declared
  bool reads = true;
  std::string name;
  std::vector<bool> mutates;  // by argument
  std::vector<bool> fresh;    // by result: not one of its arguments
};

Operator Classify(const c10::OperatorName& name) {
  Operator op;
  const auto facts = FactsOf(name);
  if (!facts) return op;
  op.name = name.name;
  // Collectives run in streams of their own and order themselves with events.
  if (facts->space == "c10d" || facts->space == "prim" || facts->space == "profiler" || facts->leaves_contents ||
      facts->makes_nothing || facts->is_view || facts->base == "_efficientzerotensor")
    return op;
  op.fresh = facts->fresh;
  op.mutates = facts->mutates;
  op.declared = facts->own_kernel || facts->shared_kernel;
  op.if_alone = !facts->own_kernel;
  op.reads = facts->reads;
  return op;
}

const Operator& Look(const c10::OperatorName& name) {
  thread_local std::unordered_map<c10::OperatorName, Operator> known;
  auto found = known.find(name);
  if (found == known.end()) found = known.emplace(name, Classify(name)).first;
  return found->second;
}

bool IsOnDevice(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cuda() && tensor.layout() == c10::kStrided && tensor.has_storage() &&
         !tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python) && tensor.storage().data() != nullptr;
}

void AddPieces(const at::Tensor& tensor, bool is_write, std::vector<Piece>& pieces) {
  int64_t item = static_cast<int64_t>(tensor.itemsize());
  if (tensor.numel() == 0) return;
  const char* base = static_cast<const char*>(tensor.storage().data()) + tensor.storage_offset() * item;
  if (tensor.is_non_overlapping_and_dense()) {
    pieces.push_back({base, static_cast<size_t>(tensor.numel() * item), is_write});
    return;
  }
  // Dimensions from the innermost on; those that continue the one inside them are one with it.
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (int64_t i = 0; i < tensor.dim(); ++i)
    if (tensor.size(i) > 1 && tensor.stride(i) != 0) dims.emplace_back(tensor.stride(i), tensor.size(i));
  std::sort(dims.begin(), dims.end());
  int64_t run = 1;
  size_t outer = 0;
  while (outer < dims.size() && dims[outer].first == run) run *= dims[outer++].second;
  std::vector<int64_t> index(dims.size() - outer, 0);
  for (int64_t row = 0; row < kMostRows; ++row) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * dims[outer + d].first;
    pieces.push_back({base + offset * item, static_cast<size_t>(run * item), is_write});
    size_t d = 0;
    while (d < index.size() && ++index[d] == dims[outer + d].second) index[d++] = 0;
    if (d == index.size()) return;
  }
}

template <class Visit>
void ForEachTensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& entry : value.toListRef()) {
      if (!entry.isTensor()) return;
      visit(entry.toTensor());
    }
  }
}

thread_local int64_t declared_count = 0;
thread_local int depth = 0;  // of declared operators
thread_local std::string frame;

struct Context : at::ObserverContext {
  const Operator* op = nullptr;  // null: a node of the backward graph
  bool begun = false;
  void* stream = nullptr;
  int64_t declared_before = 0;
  std::vector<Piece> pieces;  // to be declared at the end
  std::vector<const void*> storages;
};

void Declare(void* stream, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) phantom.declare(stream, piece.begin, piece.bytes, piece.is_write, nullptr);
  if (!pieces.empty()) ++declared_count;
}

// A block that the caching allocator takes back was used to the end as far as the host knows; what it only asked about
// counts here, and nowhere else.
void WatchAllocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    namespace allocator = c10::cuda::CUDACachingAllocator;
    try {
      allocator::attachAllocatorTraceTracker([](const allocator::TraceEntry& entry) {
        if (entry.action_ == allocator::TraceEntry::FREE_COMPLETED)
          phantom.released(reinterpret_cast<const void*>(entry.addr_), entry.size_);
      });
    } catch (const std::exception&) {
      phantom.set_queries_order(1);  // the backend of cudaMallocAsync has no such callbacks, and no queries
    }
  });
}

std::unique_ptr<at::ObserverContext> Start(const at::RecordFunction& call) {
  auto context = std::make_unique<Context>();
  if (call.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    EnterBackward(call.forwardThreadId(), call.seqNr());
    return context;
  }
  auto name = call.operator_name();
  if (!name) return nullptr;
  const Operator& op = Look(*name);
  if (!op.declared) return nullptr;
  bool any_tensor = false;
  auto inputs = call.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool is_write = i < op.mutates.size() && op.mutates[i];
    ForEachTensor(inputs[i], [&](const at::Tensor& tensor) {
      any_tensor = true;
      if (!IsOnDevice(tensor)) return;
      context->storages.push_back(tensor.storage().data());
      if (is_write || op.reads) AddPieces(tensor, is_write, context->pieces);
    });
  }
  if (any_tensor && context->storages.empty() && !op.if_alone) return nullptr;
  context->op = &op;
  if (!context->storages.empty()) {
    WatchAllocator();
    context->stream = c10::cuda::getCurrentCUDAStream().stream();
  }
  if (depth++ == 0) frame = CurrentFrame(static_cast<uint64_t>(at::RecordFunction::currentThreadId()), call.seqNr());
  context->begun = true;
  context->declared_before = declared_count;
  phantom.begin(op.name.c_str(), frame.c_str());
  if (!op.if_alone) {
    Declare(context->stream, context->pieces);
    context->pieces.clear();
  }
  return context;
}

void End(const at::RecordFunction& call, at::ObserverContext* observed) {
  auto* context = static_cast<Context*>(observed);
  if (!context) return;
  if (!context->op) {
    LeaveBackward();
    return;
  }
  const Operator& op = *context->op;
  if (!op.if_alone || declared_count == context->declared_before) {
    const auto& outputs = call.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (i < op.fresh.size() && !op.fresh[i]) continue;
      ForEachTensor(outputs[i], [&](const at::Tensor& tensor) {
        if (!IsOnDevice(tensor)) return;
        const auto& storages = context->storages;
        if (std::find(storages.begin(), storages.end(), tensor.storage().data()) != storages.end()) return;
        AddPieces(tensor, true, context->pieces);
      });
    }
    if (!context->pieces.empty() && context->storages.empty())
      context->stream = c10::cuda::getCurrentCUDAStream().stream();
    Declare(context->stream, context->pieces);
  }
  phantom.end();
  --depth;
}

}  // namespace
}  // namespace ebbtide_observer

// 0: the observer is at work; 1: no phantom in this process. `inner_folders` is where torch's own Python files are.
extern "C" __attribute__((visibility("default"))) int ebbtide_observer_start(const char* inner_folders) {
  using namespace ebbtide_observer;
  if (!phantom.Find()) return 1;
  SetInnerFolders(inner_folders);
  phantom.set_queries_order(0);
  at::addGlobalCallback(at::RecordFunctionCallback(&Start, &End)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  return 0;
}
