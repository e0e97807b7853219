// Tells the phantom GPU which operator of PyTorch is at work and on which tensors, so that the kernels it starts take
// the time that is modelled for it. Operators that start none by themselves (views, those made of others) cost two
// calls.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace ebbtide_observer {
namespace {

// As in src/phantom/core/declare.h.
enum Role { kRead = 0, kChanged = 1, kResult = 2 };
struct PhantomTensor {
  const void* storage;
  size_t storage_bytes;
  const int64_t* sizes;
  int dims;
  int scalar_type;
  size_t item_size;
  int role;
};

void (*op_begin)() = nullptr;
int (*op_launched)() = nullptr;
void (*op_end)(const char*, const PhantomTensor*, size_t) = nullptr;

template <class Function>
bool Find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

struct Known {
  std::string kind;           // without namespace and overload
  std::vector<bool> changes;  // by argument
};

const Known& Look(const c10::OperatorName& name) {
  thread_local std::unordered_map<c10::OperatorName, Known> all;
  auto found = all.find(name);
  if (found != all.end()) return found->second;
  Known known;
  const size_t colons = name.name.find("::");
  known.kind = colons == std::string::npos ? name.name : name.name.substr(colons + 2);
  if (auto op = c10::Dispatcher::singleton().findOp(name); op && op->hasSchema()) {
    for (const c10::Argument& argument : op->schema().arguments()) {
      const auto* alias = argument.alias_info();
      known.changes.push_back(alias && alias->isWrite());
    }
  }
  return all.emplace(name, std::move(known)).first->second;
}

// Tensors of the operators that this thread is in, outermost first; sizes by their place in `sizes` until the end,
// since an operator may resize what it was given. What it was called with is gone by then.
struct Noted {
  std::vector<PhantomTensor> tensors;
  std::vector<size_t> first_size;  // by tensor
  std::vector<int64_t> sizes;
};
Noted& TheNoted() {
  thread_local Noted noted;
  return noted;
}

void AddTensor(const at::Tensor& tensor, int role) {
  if (!tensor.defined() || !tensor.is_cuda() || !tensor.has_storage() || tensor.layout() != c10::kStrided ||
      tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python))
    return;
  Noted& noted = TheNoted();
  const c10::Storage& storage = tensor.storage();
  noted.tensors.push_back({storage.data(), storage.nbytes(), nullptr, static_cast<int>(tensor.dim()),
                           static_cast<int>(tensor.scalar_type()), tensor.itemsize(), role});
  noted.first_size.push_back(noted.sizes.size());
  noted.sizes.insert(noted.sizes.end(), tensor.sizes().begin(), tensor.sizes().end());
}

void Add(const c10::IValue& value, int role) {
  if (value.isTensor()) {
    AddTensor(value.toTensor(), role);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) AddTensor(tensor, role);
  } else if (value.isList()) {
    for (const c10::IValue& entry : value.toListRef()) {
      if (entry.isTensor()) AddTensor(entry.toTensor(), role);
    }
  }
}

struct Context : at::ObserverContext {
  const Known* known = nullptr;
  size_t tensors = 0, sizes = 0;  // how many were noted before it
};

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& call) {
  const auto name = call.operator_name();
  if (!name) return nullptr;
  auto context = std::make_unique<Context>();
  context->known = &Look(*name);
  Noted& noted = TheNoted();
  context->tensors = noted.tensors.size();
  context->sizes = noted.sizes.size();
  const std::vector<bool>& changes = context->known->changes;
  const auto inputs = call.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) Add(inputs[i], i < changes.size() && changes[i] ? kChanged : kRead);
  op_begin();
  return context;
}

void End(const at::RecordFunction& call, at::ObserverContext* observed) {
  if (!observed) return;
  const auto& context = static_cast<const Context&>(*observed);
  Noted& noted = TheNoted();
  std::vector<PhantomTensor>& all = noted.tensors;
  if (op_launched()) {
    const size_t first = context.tensors, given = all.size();
    for (const c10::IValue& output : call.outputs()) Add(output, kResult);
    for (size_t i = first; i < all.size(); ++i) all[i].sizes = noted.sizes.data() + noted.first_size[i];
    // What is given back as it came in is no new result.
    size_t kept = given;
    for (size_t i = given; i < all.size(); ++i) {
      bool is_given = false;
      for (size_t k = first; k < given && !is_given; ++k) is_given = all[k].storage == all[i].storage;
      if (!is_given) all[kept++] = all[i];
    }
    op_end(context.known->kind.c_str(), all.data() + first, kept - first);
  } else {
    op_end(nullptr, nullptr, 0);
  }
  all.resize(context.tensors);
  noted.first_size.resize(context.tensors);
  noted.sizes.resize(context.sizes);
}

}  // namespace
}  // namespace ebbtide_observer

// 0: operators are told; 1: no phantom in this process that wants to know.
extern "C" __attribute__((visibility("default"))) int ebbtide_observer_time() {
  using namespace ebbtide_observer;
  int (*wanted)() = nullptr;
  if (!Find(wanted, "ebbtide_phantom_times_ops") || !wanted() || !Find(op_begin, "ebbtide_phantom_op_begin") ||
      !Find(op_launched, "ebbtide_phantom_op_launched") || !Find(op_end, "ebbtide_phantom_op_end"))
    return 1;
  at::addGlobalCallback(at::RecordFunctionCallback(&Begin, &End)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
  return 0;
}
