// An operator once more, on the CPU.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>
#include <mutex>
#include <unordered_set>

#include "values.h"

namespace ebbtide_observer {
namespace {

constexpr int64_t kMostHeavyWork = int64_t{1} << 22;  // elements of the two largest inputs, multiplied

constexpr int64_t kLargestDraw = 64 * 1024;  // bytes; parameters that are made on the device are mostly larger

thread_local bool quiet = false;

// The program's own random numbers of the CPU stay as they are; ours go on from draw to draw.
class OwnRandomNumbers {
 public:
  OwnRandomNumbers()
      : lock_(mutex_), generator_(at::detail::getDefaultCPUGenerator()), programs_(generator_.get_state()) {
    if (ours_.defined())
      generator_.set_state(ours_);
    else
      generator_.set_current_seed(0);
  }
  ~OwnRandomNumbers() {
    ours_ = generator_.get_state();
    generator_.set_state(programs_);
  }

 private:
  static inline std::mutex mutex_;
  static inline at::Tensor ours_;
  std::lock_guard<std::mutex> lock_;
  at::Generator generator_;
  at::Tensor programs_;
};

// Calls that the CPU refused, by operator and type: raising the error again would take long.
bool WasRefused(const std::string& key, bool add) {
  thread_local std::unordered_set<std::string> refused;
  if (add) refused.insert(key);
  return refused.count(key) > 0;
}

bool IsTooMuch(const Rule& rule, const std::vector<c10::IValue>& arguments) {
  if (!rule.heavy) return false;
  int64_t first = 1, second = 1;
  for (const c10::IValue& argument : arguments) {
    ForEachTensorOf(argument, [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      if (tensor.numel() > first)
        second = first, first = tensor.numel();
      else if (tensor.numel() > second)
        second = tensor.numel();
    });
  }
  return second > kMostHeavyWork / first;
}

class ToHost {
 public:
  ToHost(const Rule& rule, uint32_t& origin) : rule_(rule), origin_(origin) {}

  bool Convert(const c10::IValue& from, bool mutated, bool replaced, c10::IValue& to) {
    if (from.isTensor()) {
      at::Tensor tensor;
      if (!Convert(from.toTensor(), mutated, replaced, tensor)) return false;
      to = tensor;
    } else if (from.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& entry : from.toTensorVector()) {
        at::Tensor tensor;
        if (!Convert(entry, mutated, replaced, tensor)) return false;
        list.push_back(tensor);
      }
      to = list;
    } else if (from.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor> entry : from.toOptionalTensorList()) {
        at::Tensor tensor;
        if (entry && !Convert(*entry, mutated, replaced, tensor)) return false;
        list.push_back(entry ? std::optional<at::Tensor>(tensor) : std::nullopt);
      }
      to = list;
    } else if (from.isDevice()) {
      to = c10::Device(c10::kCPU);
    } else if (from.isGenerator()) {
      to = c10::IValue();
    } else if (from.isSymInt() || from.isSymIntList()) {
      return false;
    } else {
      to = from;
    }
    return true;
  }

 private:
  bool Convert(const at::Tensor& from, bool mutated, bool replaced, at::Tensor& to) {
    if (!from.defined()) return true;
    if (IsPlainOnHost(from)) {
      to = mutated ? from.clone() : from;
      return true;
    }
    if (!IsPlainOnDevice(from)) return false;
    if (!rule_.reads || replaced) {
      const int64_t largest = rule_.is_random ? kLargestDraw : LargestOf(from.scalar_type());
      if (from.numel() * static_cast<int64_t>(from.itemsize()) > largest) return false;
      to = at::empty(from.sizes(), at::TensorOptions().dtype(from.dtype()).device(at::kCPU));
      return true;
    }
    to = Read(from, origin_);
    // The CPU counts no integers; the device does.
    if (to.defined() && rule_.name == "aten::histc" && c10::isIntegralType(to.scalar_type(), true))
      to = to.to(at::kDouble);
    return to.defined();
  }

  const Rule& rule_;
  uint32_t& origin_;
};

}  // namespace

struct Quiet::Parts {
  at::DisableRecordFunctionGuard records;
  c10::impl::ForceDispatchKeyGuard keys{c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet{})};
};

Quiet::Quiet() : parts_(new Parts) {
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::BackendSelect, true);
  for (c10::DispatchKey key : c10::autograd_dispatch_keyset_with_ADInplaceOrView)
    c10::impl::tls_set_dispatch_key_excluded(key, true);
  quiet = true;
}

Quiet::~Quiet() {
  quiet = false;
  delete parts_;
}

bool Quiet::IsActive() { return quiet; }

std::optional<Computed> Compute(const Rule& rule, const std::vector<c10::IValue>& arguments) {
  if (!rule.on_cpu || IsTooMuch(rule, arguments)) return std::nullopt;
  Computed computed;
  ToHost to_host(rule, computed.origin);
  std::string key = rule.name;
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue value;
    if (!to_host.Convert(arguments[i], i < rule.mutates.size() && rule.mutates[i],
                         i < rule.replaces.size() && rule.replaces[i], value))
      return std::nullopt;
    if (value.isTensor() && value.toTensor().defined()) key += c10::toString(value.toTensor().scalar_type());
    computed.arguments.push_back(std::move(value));
  }
  if (WasRefused(key, false)) return std::nullopt;
  try {
    std::optional<OwnRandomNumbers> own;
    if (rule.is_random) own.emplace();
    std::vector<c10::IValue> stack = computed.arguments;
    rule.handle->callBoxed(&stack);
    computed.results = std::move(stack);
  } catch (const std::exception&) {
    WasRefused(key, true);
    return std::nullopt;
  }
  return computed;
}

}  // namespace ebbtide_observer
