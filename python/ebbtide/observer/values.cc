// Follows every operator: a callback of at::RecordFunction around each call of the dispatcher (see values.h).
//
// Only the outermost operator that has a kernel is computed; what its kernel calls inside belongs to it, and what a
// kernel of its own wrote to memory in between is not known. Operators of other namespaces, and those that the rules
// call transparent, are made of others: there the inner ones are followed, too.
#include "values.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/nonzero.h>
#include <ATen/record_function.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>

#include <cstring>
#include <memory>

#include "frames.h"

namespace ebbtide_observer {

ValuesOfPhantom memory;

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

constexpr int64_t kMostAssumed = 4 * 1024 * 1024;  // bytes of a result that is filled by assumption

struct Call : at::ObserverContext {
  const Rule* rule = nullptr;
  bool followed = false;  // its results are computed or assumed; else they are unknown
  bool eligible = false;  // all that it reads is known
  uint32_t origin = 0;
  std::optional<c10::ScalarType> type;  // of its first tensor on the device
  std::vector<c10::IValue> arguments;
  std::vector<at::Tensor> mutated;  // on the device, in the order of the arguments
  std::optional<Computed> computed;
  std::optional<int64_t> size;  // what the kernel would read back: how many there are
  int64_t launches_seen = 0;
  std::vector<at::Tensor> made_inside;  // of a transparent operator with kernels of its own
};

thread_local std::vector<Call*> calls;

std::string Line() {
  const std::string line = CurrentFrame(0, -1);
  return line.empty() ? "the backward pass" : line;
}

std::string ShapeOf(at::IntArrayRef sizes) {
  std::string out = "[";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i ? ", " : "") + std::to_string(sizes[i]);
  return out + "]";
}

const at::Tensor* FirstTensor(const std::vector<c10::IValue>& values) {
  for (const c10::IValue& value : values)
    if (value.isTensor() && value.toTensor().defined()) return &value.toTensor();
  return nullptr;
}

Assumed AssumptionOf(Sizes sizes) {
  switch (sizes) {
    case Sizes::kUnique:
    case Sizes::kUniqueDim: return Assumed::kDistinct;
    case Sizes::kRepeats: return Assumed::kRepeats;
    case Sizes::kBincount: return Assumed::kIndices;
    case Sizes::kNms: return Assumed::kKept;
    default: return Assumed::kMasks;
  }
}

// How many there are, where what it is of is not known.
int64_t AssumedSize(const Rule& rule, const std::vector<c10::IValue>& arguments) {
  const at::Tensor* first = FirstTensor(arguments);
  if (!first) return 0;
  const auto share = [](int64_t all, double of) { return static_cast<int64_t>(static_cast<double>(all) * of); };
  switch (rule.sizes) {
    case Sizes::kNonzero: return share(first->numel(), assumptions.masks);
    case Sizes::kMaskedSelect:
      return share(std::max(first->numel(), arguments[1].toTensor().numel()), assumptions.masks);
    case Sizes::kUniqueDim: {
      int64_t dim = arguments[1].toInt();
      return first->size(dim);
    }
    case Sizes::kRepeats: return first->numel() * assumptions.integers;
    case Sizes::kBincount: return std::max<int64_t>(arguments.back().isInt() ? arguments.back().toInt() : 0, 1) - 1;
    case Sizes::kNms: return share(first->size(0), assumptions.kept);
    case Sizes::kEqual: return 1;
    default: return first->numel();
  }
}

// How many there are, in what the CPU computed; what a kernel reads back is not always the size of its result.
int64_t KnownSize(const Rule& rule, const Computed& computed) {
  const c10::IValue& result = computed.results.front();
  if (result.isBool()) return result.toBool();
  const at::Tensor& tensor = result.toTensor();
  const at::Tensor& first = computed.arguments.front().toTensor();
  if (rule.sizes == Sizes::kUnique && first.scalar_type() == at::kBool) return at::count_nonzero(first).item<int64_t>();
  if (rule.sizes == Sizes::kBincount) return first.numel() ? first.max().item<int64_t>() : 0;
  return tensor.dim() > 0 ? tensor.size(rule.sizes == Sizes::kUniqueDim ? computed.arguments[1].toInt() : 0) : 1;
}

void PrepareSize(Call& call) {
  const Rule& rule = *call.rule;
  Quiet quiet;
  if (call.eligible) call.computed = Compute(rule, call.arguments);
  if (call.computed) {
    call.size = KnownSize(rule, *call.computed);
    call.origin = call.computed->origin;
    return;
  }
  call.size = AssumedSize(rule, call.arguments);
  call.origin = OriginOf(AssumptionOf(rule.sizes), rule.name, Line());
}

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

// The bools and indices that an operator makes of unknown values, so that what follows from them can be computed.
void Assume(const Call& call, const at::Tensor& result) {
  const Rule& rule = *call.rule;
  if (result.numel() * static_cast<int64_t>(result.itemsize()) > kMostAssumed) return;
  if (result.scalar_type() == at::kBool && rule.border != Border::kNoMask) {
    const bool finite = rule.border == Border::kFinite || rule.border == Border::kNotFinite;
    const Assumed assumed = finite ? Assumed::kFinite : Assumed::kMasks;
    Quiet quiet;
    Write(result, AssumedMask(result.sizes(), finite, rule.border == Border::kFinite),
          OriginOf(assumed, rule.name, Line()));
  } else if (result.scalar_type() == at::kLong && rule.border == Border::kIndices) {
    Quiet quiet;
    Write(result, AssumedIndices(rule, call.arguments, result.sizes()), OriginOf(Assumed::kIndices, rule.name, Line()));
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

void NoteSize(const Call& call, const std::vector<at::Tensor>& results) {
  if (call.origin == 0 || call.rule->sizes == Sizes::kByShape) return;
  for (const Call* outer : calls)
    if (outer->size) return;  // told there
  const std::string led_to = call.rule->sizes == Sizes::kEqual          ? std::string(*call.size ? "true" : "false")
                             : results.empty() || !results[0].defined() ? std::string()
                                                                        : "a size of " + ShapeOf(results[0].sizes());
  if (call.computed)
    RecordOrigin(call.origin, Line(), call.rule->name, led_to);
  else
    Record(AssumptionOf(call.rule->sizes), Line(), call.rule->name + " of what skipped kernels would have made",
           led_to);
}

// What a size that was assumed holds: as if all of it had been asked of a mask that is true, of numbers that differ.
void AssumeSized(Call& call, const std::vector<at::Tensor>& results) {
  if (results.empty() || !results[0].defined() || results[0].scalar_type() != at::kLong) return;
  const at::Tensor& result = results[0];
  if (result.numel() * 8 > kMostAssumed || !IsPlainOnDevice(result)) return;
  const at::Tensor* first = FirstTensor(call.arguments);
  Quiet quiet;
  at::Tensor value;
  if (call.rule->sizes == Sizes::kNms || call.rule->sizes == Sizes::kRepeats) {
    value = at::arange(result.numel(), at::kLong);
  } else if (call.rule->sizes == Sizes::kNonzero && first->numel() <= kMostAssumed) {
    value = at::nonzero(AssumedMask(first->sizes(), false, true));
  }
  if (value.defined()) Write(result, value, call.origin);
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
    for (const at::Tensor& tensor : results)
      if (tensor.defined() && IsPlainOnDevice(tensor)) Assume(call, tensor);
    for (const at::Tensor& tensor : call.mutated) Assume(call, tensor);
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

template <class Number>
void Fill(void* out, size_t bytes, Number value) {
  auto* numbers = static_cast<Number*>(out);
  for (size_t i = 0; i < bytes / sizeof(Number); ++i) numbers[i] = value;
}

void FillBy(c10::ScalarType type, void* out, size_t bytes) {
  const double value = assumptions.values;
  switch (type) {
    case at::kBool: return Fill<uint8_t>(out, bytes, assumptions.masks > 0);
    case at::kDouble:
    case at::kComplexDouble: return Fill<double>(out, bytes, value);
    case at::kFloat:
    case at::kComplexFloat: return Fill<float>(out, bytes, static_cast<float>(value));
    case at::kHalf: return Fill<at::Half>(out, bytes, at::Half(static_cast<float>(value)));
    case at::kBFloat16: return Fill<at::BFloat16>(out, bytes, at::BFloat16(static_cast<float>(value)));
    case at::kLong: return Fill<int64_t>(out, bytes, assumptions.integers);
    case at::kInt: return Fill<int32_t>(out, bytes, static_cast<int32_t>(assumptions.integers));
    case at::kShort: return Fill<int16_t>(out, bytes, static_cast<int16_t>(assumptions.integers));
    case at::kByte:
    case at::kChar: return Fill<int8_t>(out, bytes, static_cast<int8_t>(assumptions.integers));
    default: return;
  }
}

std::string Shown(c10::ScalarType type, const void* out, size_t bytes) {
  if (out == nullptr || bytes != c10::elementSize(type)) return std::to_string(bytes) + " bytes";
  Quiet quiet;
  at::Tensor value = at::empty({}, at::TensorOptions().dtype(type));
  std::memcpy(value.data_ptr(), out, bytes);
  if (type == at::kBool) return value.item<bool>() ? "true" : "false";
  if (c10::isIntegralType(type, false)) return std::to_string(value.item<int64_t>());
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value.item().toDouble());
  return text;
}

// Operators that hand contents to the host as they are.
bool IsRead(const std::string& name) {
  return name == "aten::copy_" || name == "aten::_local_scalar_dense" || name == "aten::_to_copy" ||
         name == "aten::_foreach_copy_" || name == "aten::clone";
}

// As a program calls it.
std::string ReadName(const std::string& name) {
  if (name == "aten::_local_scalar_dense") return "item()";
  return IsRead(name) ? "a copy to the host" : name;
}

int OnRead(const void* address, size_t bytes, int known, uint32_t origin, void* out) {
  if (Quiet::IsActive()) return 0;
  for (auto call = calls.begin(); call != calls.end(); ++call) {  // the outermost one knows for those inside
    if (!(*call)->size) continue;
    if (known || out == nullptr || bytes > 8) return 0;
    const int64_t size = *(*call)->size;
    std::memcpy(out, &size, bytes);
    return (*call)->origin == 0 ? 2 : 1;
  }
  const Call* inner = calls.empty() ? nullptr : calls.back();
  const std::string what = inner ? ReadName(calls.front()->rule->name) : "a copy to the host";
  if (!known && (!inner || !IsRead(inner->rule->name))) {  // what a kernel asks about its own scratch memory
    Record(Assumed::kZeros, Line(), what + " reads back what its skipped kernel would have made",
           std::to_string(bytes) + " bytes");
    return 0;
  }
  const c10::ScalarType type = inner && inner->type ? *inner->type : at::kByte;
  if (known) {
    RecordOrigin(origin, Line(), what, Shown(type, out, bytes));
    return 1;
  }
  if (out != nullptr) FillBy(type, out, bytes);
  const Assumed assumed = type == at::kBool                 ? Assumed::kMasks
                          : c10::isIntegralType(type, true) ? Assumed::kIntegers
                                                            : Assumed::kValues;
  Record(assumed, Line(), what + " of what skipped kernels would have made", Shown(type, out, bytes));
  return 1;
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

// 0: values are followed from now on; 1: no phantom in this process; 2: `assume` cannot be understood. `torch_folder`
// is where torch's own Python files are.
extern "C" __attribute__((visibility("default"))) int ebbtide_values_start(const char* torch_folder,
                                                                           const char* assume) {
  using namespace ebbtide_observer;
  if (!memory.Find()) return 1;
  if (!ParseAssumptions(assume ? assume : "", last_error)) return 2;
  SetInnerFolder(torch_folder);
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
