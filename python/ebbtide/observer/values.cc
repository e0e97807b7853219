// Follows every operator: a callback of at::RecordFunction around each call of the dispatcher (see values.h).
//
// Only the outermost operator that has a kernel is computed; what its kernel calls inside belongs to it, and what a
// kernel of its own wrote to memory in between is not known. Operators of other namespaces, and those that the rules
// call transparent, are made of others: there the inner ones are followed, too.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>

#include <memory>

#include "frames.h"
#include "values_call.h"

namespace ebbtide_observer {

ValuesOfPhantom memory;
thread_local std::vector<Call*> calls;

std::string Line() {
  const std::string line = CurrentFrame(0, -1);
  return line.empty() ? "the backward pass" : line;
}

bool ValuesOfPhantom::Find() {
  auto find = [](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
    return function != nullptr;
  };
  return find(watch_values, "ebbtide_phantom_watch_values") && find(enter, "ebbtide_phantom_enter") &&
         find(leave, "ebbtide_phantom_leave") && find(launched, "ebbtide_phantom_launched") &&
         find(knows, "ebbtide_phantom_knows") && find(read, "ebbtide_phantom_read") &&
         find(write, "ebbtide_phantom_write") && find(forget, "ebbtide_phantom_forget");
}

namespace {

// What the kernels of an operator outside of aten wrote, of the memory that it made inside, is not known.
void ForgetInside(Call& call) {
  if (call.rule->is_aten) return;
  const int64_t launched = memory.launched();
  if (launched == call.launches_seen) return;
  call.launches_seen = launched;
  for (const at::Tensor& tensor : call.made_inside) Forget(tensor);
}

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& record) {
  if (Quiet::IsActive()) return nullptr;
  auto name = record.operator_name();
  if (!name) return nullptr;
  const Rule& rule = RuleOf(*name);
  if (!rule.handle) return nullptr;
  bool on_device = false, plain = true, known = true;
  std::optional<c10::ScalarType> type;
  const auto inputs = record.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].isDevice()) on_device = on_device || inputs[i].toDevice().is_cuda();
    ForEachTensorOf(inputs[i], [&](const at::Tensor& tensor) {
      if (!tensor.defined() || IsPlainOnHost(tensor)) return;
      if (!IsPlainOnDevice(tensor)) {
        plain = false;
        return;
      }
      on_device = true;
      if (!type) type = tensor.scalar_type();
    });
  }
  if (!on_device || (!plain && rule.is_aten && c10::impl::TorchDispatchModeTLS::any_modes_set())) return nullptr;
  auto call = std::make_unique<Call>();
  call->rule = &rule;
  call->type = type;
  Call* parent = calls.empty() ? nullptr : calls.back();
  call->followed = plain && !rule.makes_nothing && (!parent || (parent->rule->transparent && parent->followed));
  if (parent) ForgetInside(*parent);
  const bool by_size = rule.sizes != Sizes::kByShape;
  if (call->followed) {
    for (size_t i = 0; i < inputs.size() && known && rule.reads; ++i) {
      if (i < rule.replaces.size() && rule.replaces[i]) continue;
      ForEachTensorOf(inputs[i], [&](const at::Tensor& tensor) {
        if (known && tensor.defined() && !IsPlainOnHost(tensor)) known = Knows(tensor);
      });
    }
    call->eligible = known;
    if (known || by_size || rule.border != Border::kNone) call->arguments.assign(inputs.begin(), inputs.end());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!(i < rule.mutates.size() && rule.mutates[i])) continue;
    ForEachTensorOf(inputs[i], [&](const at::Tensor& tensor) {
      if (IsPlainOnDevice(tensor)) call->mutated.push_back(tensor);
    });
  }
  for (int i : rule.statistics) {
    if (static_cast<size_t>(i) >= inputs.size() || !inputs[i].isTensor()) continue;
    if (IsPlainOnDevice(inputs[i].toTensor())) Forget(inputs[i].toTensor());
  }
  if (call->followed && by_size) {
    PrepareSize(*call);
  } else if (call->eligible && rule.mutates_any && !call->mutated.empty()) {
    Quiet quiet;
    call->computed = Compute(rule, call->arguments);
  }
  calls.push_back(call.get());
  memory.enter();
  return call;
}

// Results of linear algebra that tell whether it succeeded.
bool IsInfo(const Rule& rule, size_t number) {
  const auto& returns = rule.handle->schema().returns();
  return number < returns.size() && returns[number].name() == "info";
}

// The bools and indices that an operator makes of unknown values, so that what follows from them can be computed.
void Assume(const Call& call, const at::Tensor& result, size_t number) {
  const Rule& rule = *call.rule;
  if (result.numel() * static_cast<int64_t>(result.itemsize()) > kMostAssumed) return;
  if (result.scalar_type() == at::kBool && rule.border != Border::kNoMask) {
    const bool finite = rule.border == Border::kFinite || rule.border == Border::kNotFinite;
    const Assumed assumed = finite ? Assumed::kFinite : Assumed::kMasks;
    Quiet quiet;
    Write(result, AssumedMask(result.sizes(), finite, rule.border == Border::kFinite),
          OriginOf(assumed, rule.name, Line()));
  } else if (result.scalar_type() == at::kLong &&
             (rule.border == Border::kIndices || (rule.border == Border::kValuesAndIndices && number == 1))) {
    Quiet quiet;
    Write(result, AssumedIndices(rule, call.arguments, result.sizes()), OriginOf(Assumed::kIndices, rule.name, Line()));
  } else if (result.scalar_type() == at::kInt && rule.border == Border::kInfo && IsInfo(rule, number)) {
    Quiet quiet;
    Write(result, at::zeros(result.sizes(), at::kInt), OriginOf(Assumed::kSolved, rule.name, Line()));
  }
}

void WriteComputed(Call& call, const std::vector<at::Tensor>& results) {
  Quiet quiet;
  const Computed& computed = *call.computed;
  uint32_t origin = call.origin ? call.origin : computed.origin;
  if (call.rule->is_random && origin == 0) origin = OriginOf(Assumed::kDraw, call.rule->name, Line());
  size_t next = 0;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (!(i < call.rule->mutates.size() && call.rule->mutates[i])) continue;
    std::vector<at::Tensor> values;
    ForEachTensorOf(computed.arguments[i], [&](const at::Tensor& tensor) { values.push_back(tensor); });
    size_t at = 0;
    ForEachTensorOf(call.arguments[i], [&](const at::Tensor& tensor) {
      if (at < values.size() && IsPlainOnDevice(tensor)) Write(tensor, values[at], origin);
      ++at;
    });
  }
  for (size_t i = 0; i < computed.results.size(); ++i) {
    if (i < call.rule->fresh.size() && !call.rule->fresh[i]) continue;
    ForEachTensorOf(computed.results[i], [&](const at::Tensor& value) {
      if (next < results.size() && results[next].defined() && IsPlainOnDevice(results[next]) && value.defined())
        Write(results[next], value, origin);
      ++next;
    });
  }
}

bool AreSmall(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined() && tensor.numel() * static_cast<int64_t>(tensor.itemsize()) > LargestOf(tensor.scalar_type()))
      return false;
  return true;
}

void Finish(Call& call, const std::vector<at::Tensor>& results, int64_t launches) {
  const Rule& rule = *call.rule;
  if (call.eligible && !call.computed && rule.sizes == Sizes::kByShape && call.mutated.empty() && AreSmall(results)) {
    Quiet quiet;
    call.computed = Compute(rule, call.arguments);
  }
  if (call.computed) {
    WriteComputed(call, results);
    NoteSize(call, results);
    return;
  }
  if (!rule.is_aten && launches == 0) return;  // made of others, which have said what they made
  for (const at::Tensor& tensor : call.mutated) Forget(tensor);
  for (const at::Tensor& tensor : results)
    if (tensor.defined() && IsPlainOnDevice(tensor)) Forget(tensor);
  if (!call.followed || rule.makes_nothing) return;
  if (rule.sizes != Sizes::kByShape) {
    AssumeSized(call, results);
    NoteSize(call, results);
    return;
  }
  if (rule.border == Border::kScaler) {
    for (const c10::IValue& argument : call.arguments) {  // the flag is the one mutated tensor that is no list
      if (!argument.isTensor() || !IsPlainOnDevice(argument.toTensor())) continue;
      Quiet quiet;
      Write(argument.toTensor(), at::full(argument.toTensor().sizes(), assumptions.finite ? 0.0 : 1.0),
            OriginOf(Assumed::kFinite, rule.name, Line()));
      break;
    }
    return;
  }
  if (!call.eligible) {
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].defined() && IsPlainOnDevice(results[i])) Assume(call, results[i], i);
    for (size_t i = 0; i < call.mutated.size(); ++i) Assume(call, call.mutated[i], i);
  }
}

void End(const at::RecordFunction& record, at::ObserverContext* observed) {
  auto* call = static_cast<Call*>(observed);
  if (!call) return;
  const int64_t launches = memory.leave();
  if (!calls.empty()) calls.pop_back();
  std::vector<at::Tensor> results;
  const auto& outputs = record.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i < call->rule->fresh.size() && !call->rule->fresh[i]) continue;
    ForEachTensorOf(outputs[i], [&](const at::Tensor& tensor) { results.push_back(tensor); });
  }
  try {
    Finish(*call, results, launches);
  } catch (const std::exception&) {
    for (const at::Tensor& tensor : call->mutated) Forget(tensor);
    for (const at::Tensor& tensor : results)
      if (tensor.defined() && IsPlainOnDevice(tensor)) Forget(tensor);
  }
  if (!calls.empty() && !calls.back()->rule->is_aten) {
    for (const at::Tensor& tensor : results)
      if (tensor.defined() && IsPlainOnDevice(tensor)) calls.back()->made_inside.push_back(tensor);
  }
}

// What lay in memory that is given out anew is nobody's any more; kernels ask the allocator for scratch memory
// directly.
void ForgetWhatIsAllocated() {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  try {
    allocator::attachAllocatorTraceTracker([](const allocator::TraceEntry& entry) {
      if (entry.action_ == allocator::TraceEntry::ALLOC)
        memory.forget(reinterpret_cast<const void*>(entry.addr_), static_cast<size_t>(entry.size_));
    });
  } catch (const std::exception&) {
    // The backend of cudaMallocAsync has no such callbacks; there the phantom sees every allocation itself.
  }
}

std::string last_error;
std::string report;

}  // namespace
}  // namespace ebbtide_observer

// 0: values are followed from now on; 1: no phantom in this process; 2: `assume` cannot be understood. `inner_folders`:
// see frames.h.
extern "C" __attribute__((visibility("default"))) int ebbtide_values_start(const char* inner_folders,
                                                                           const char* assume) {
  using namespace ebbtide_observer;
  if (!memory.Find()) return 1;
  if (!ParseAssumptions(assume ? assume : "", last_error)) return 2;
  SetInnerFolders(inner_folders);
  memory.watch_values(&OnRead);
  ForgetWhatIsAllocated();
  at::addGlobalCallback(at::RecordFunctionCallback(&Begin, &End)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
  return 0;
}

// What was assumed up to now, as JSON. Valid until the next call.
extern "C" __attribute__((visibility("default"))) const char* ebbtide_values_report() {
  using namespace ebbtide_observer;
  report = RecordsAsJson();
  return report.c_str();
}

extern "C" __attribute__((visibility("default"))) const char* ebbtide_values_error() {
  return ebbtide_observer::last_error.c_str();
}
