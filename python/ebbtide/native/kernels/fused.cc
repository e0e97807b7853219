// Kernels that Inductor has compiled for the CPU, as one op of torch's dispatcher: ebbtide::fused, which makes its
// results, looks the kernel up by its name and calls it with addresses. Which addresses those are is told by
// ebbtide_add_fused (ebbtide/inductor/library.py), once for each name.
#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"

namespace ebbtide::torch_kernels {
namespace {

constexpr std::size_t kExact = 64;   // up to so many arguments, a function is called with as many as it has
constexpr std::size_t kStep = 16;    // beyond, with up to so many more, which it does not look at
constexpr std::size_t kMost = 1024;  // of the arguments of one kernel

enum From : int64_t { kGiven = 0, kChanged = 1, kMade = 2, kNumber = 3 };

struct FusedKernel {
  struct Address {
    int64_t from, index, offset;  // of which list, which of it, how many bytes behind the beginning of its storage
  };
  struct Form {
    at::ScalarType dtype;
    std::vector<int64_t> shape, stride;
  };
  void* function;
  std::vector<Address> addresses;
  std::vector<Form> made;
};

std::mutex kernels_mutex;
std::map<std::string, FusedKernel> kernels;  // entries are never removed: programs refer to them by name

template <std::size_t... I>
void Call(void* function, void** a, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(decltype((void)I, static_cast<void*>(nullptr))...)>(function)(a[I]...);
}
template <std::size_t N>
void CallWith(void* function, void** a) {
  Call(function, a, std::make_index_sequence<N>());
}
using Caller = void (*)(void*, void**);

template <std::size_t... N>
constexpr std::array<Caller, sizeof...(N)> ExactCallers(std::index_sequence<N...>) {
  return {&CallWith<N>...};
}
template <std::size_t... N>
constexpr std::array<Caller, sizeof...(N)> WideCallers(std::index_sequence<N...>) {
  return {&CallWith<kExact + kStep*(N + 1)>...};
}
constexpr auto kExactCallers = ExactCallers(std::make_index_sequence<kExact + 1>());
constexpr auto kWideCallers = WideCallers(std::make_index_sequence<(kMost - kExact) / kStep>());

const FusedKernel& Find(const std::string& name) {
  const std::lock_guard lock(kernels_mutex);
  const auto found = kernels.find(name);
  TORCH_CHECK(found != kernels.end(), "kernel ", name,
              " is not loaded; expected one of this process's own compilation");
  return found->second;
}

std::vector<at::Tensor> Fused(const std::string& name, const std::vector<at::Tensor>& given,
                              const std::vector<at::Tensor>& changed, const std::vector<double>& numbers) {
  const FusedKernel& kernel = Find(name);
  std::vector<at::Tensor> made;
  made.reserve(kernel.made.size());
  for (const FusedKernel::Form& form : kernel.made) {
    made.push_back(at::empty_strided(form.shape, form.stride, at::TensorOptions().dtype(form.dtype)));
  }
  std::array<void*, kMost> addresses{};
  std::size_t count = 0;
  for (const auto& [from, index, offset] : kernel.addresses) {
    if (from == kNumber) {
      addresses[count++] = const_cast<double*>(&numbers[static_cast<std::size_t>(index)]);
      continue;
    }
    const auto& list = from == kGiven ? given : from == kChanged ? changed : made;
    const at::Tensor& tensor = list[static_cast<std::size_t>(index)];
    addresses[count++] = static_cast<char*>(const_cast<void*>(tensor.storage().data())) + offset;
  }
  if (count <= kExact) {
    kExactCallers[count](kernel.function, addresses.data());
  } else {
    kWideCallers[(count - kExact - 1) / kStep](kernel.function, addresses.data());
  }
  return made;
}

std::vector<at::Tensor> FusedOfTorch(std::string name, std::vector<at::Tensor> given, std::vector<at::Tensor> changed,
                                     std::vector<double> numbers) {
  return Fused(name, given, changed, numbers);
}

void Register() {
  static const bool once = [] {
    static torch::Library library(torch::Library::DEF, "ebbtide", std::nullopt, __FILE__, __LINE__);
    library.def("fused(str kernel, Tensor[] given, Tensor(a!)[] changed, float[] numbers) -> Tensor[]");
    library.impl("fused", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, &FusedOfTorch));
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace
}  // namespace ebbtide::torch_kernels

// `numbers`: how many addresses; of each (from, index, offset); how many tensors are made; of each how many dimensions,
// their sizes, their strides. `dtypes`: those of the tensors that are made, a space behind each. 0, or -1 with a line
// in `error`, which has room for 1024 characters.
extern "C" __attribute__((visibility("default"))) int32_t ebbtide_add_fused(const char* name, void* function,
                                                                            const int64_t* numbers, const char* dtypes,
                                                                            char* error) {
  using namespace ebbtide::torch_kernels;
  try {
    Register();
    FusedKernel kernel{function, {}, {}};
    const int64_t addresses = *numbers++;
    TORCH_CHECK(addresses >= 0 && addresses <= static_cast<int64_t>(kMost), addresses,
                " arguments of a kernel; expected at most ", kMost);
    for (int64_t i = 0; i < addresses; ++i, numbers += 3)
      kernel.addresses.push_back({numbers[0], numbers[1], numbers[2]});
    std::istringstream types(dtypes);
    for (int64_t left = *numbers++; left > 0; --left) {
      std::string dtype;
      types >> dtype;
      const int64_t dimensions = *numbers++;
      kernel.made.push_back({ScalarTypeOf(dtype.c_str()),
                             {numbers, numbers + dimensions},
                             {numbers + dimensions, numbers + 2 * dimensions}});
      numbers += 2 * dimensions;
    }
    const std::lock_guard lock(kernels_mutex);
    kernels.emplace(name, std::move(kernel));  // one of that name does the same
    return 0;
  } catch (const std::exception& e) {
    std::strncpy(error, e.what(), 1023);
    return -1;
  }
}
