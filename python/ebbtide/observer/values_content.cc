// Tensors in the phantom's memory: which bytes of it they are, and what is known of these.
#include <ATen/ops/empty.h>
#include <c10/core/DispatchKeySet.h>

#include <algorithm>

#include "values.h"

namespace ebbtide_observer {
namespace {

constexpr int64_t kMostRuns = 65536;
constexpr int64_t kMostSpan = 64 * 1024 * 1024;

struct Run {
  int64_t offset = 0;  // in bytes, from the tensor's first element
  int64_t bytes = 0;
};

const char* Begin(const at::Tensor& tensor) {
  return static_cast<const char*>(tensor.storage().data()) + tensor.storage_offset() * tensor.itemsize();
}

// Bytes from the first element to the end of the last.
int64_t Span(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return (last + 1) * tensor.itemsize();
}

// Runs of bytes that follow each other, without those in between that are not the tensor's. Empty: too many.
std::vector<Run> Runs(const at::Tensor& tensor) {
  const int64_t item = tensor.itemsize();
  if (tensor.is_non_overlapping_and_dense()) return {{0, tensor.numel() * item}};
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (int64_t i = 0; i < tensor.dim(); ++i)
    if (tensor.size(i) > 1 && tensor.stride(i) != 0) dims.emplace_back(tensor.stride(i), tensor.size(i));
  std::sort(dims.begin(), dims.end());
  int64_t run = 1;
  size_t outer = 0;
  while (outer < dims.size() && dims[outer].first == run) run *= dims[outer++].second;
  int64_t count = 1;
  for (size_t d = outer; d < dims.size(); ++d) count *= dims[d].second;
  if (count > kMostRuns) return {};
  std::vector<Run> runs;
  std::vector<int64_t> index(dims.size() - outer, 0);
  for (;;) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * dims[outer + d].first;
    runs.push_back({offset * item, run * item});
    size_t d = 0;
    while (d < index.size() && ++index[d] == dims[outer + d].second) index[d++] = 0;
    if (d == index.size()) return runs;
  }
}

bool IsPlain(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != c10::kStrided || !tensor.has_storage()) return false;
  const c10::DispatchKeySet keys = tensor.unsafeGetTensorImpl()->key_set();
  return !keys.has(c10::DispatchKey::Python) && !keys.has(c10::DispatchKey::FuncTorchBatched) &&
         !keys.has(c10::DispatchKey::FuncTorchGradWrapper) && !keys.has(c10::DispatchKey::Functionalize) &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() && !c10::isQIntType(tensor.scalar_type());
}

}  // namespace

bool IsPlainOnDevice(const at::Tensor& tensor) {
  return IsPlain(tensor) && tensor.is_cuda() && (tensor.storage().data() != nullptr || tensor.numel() == 0);
}

bool IsPlainOnHost(const at::Tensor& tensor) { return IsPlain(tensor) && tensor.is_cpu(); }

bool Knows(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return true;
  if (tensor.numel() * static_cast<int64_t>(tensor.itemsize()) > LargestOf(tensor.scalar_type())) return false;
  if (tensor.is_conj() || tensor.is_neg()) return false;
  const int64_t span = Span(tensor);
  if (span <= kMostSpan && memory.knows(Begin(tensor), static_cast<size_t>(span), nullptr)) return true;
  if (tensor.is_non_overlapping_and_dense()) return false;
  const std::vector<Run> runs = Runs(tensor);
  for (const Run& run : runs)
    if (!memory.knows(Begin(tensor) + run.offset, static_cast<size_t>(run.bytes), nullptr)) return false;
  return !runs.empty();
}

at::Tensor Read(const at::Tensor& tensor, uint32_t& origin) {
  const auto options = at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU);
  if (tensor.numel() == 0) return at::empty(tensor.sizes(), options);
  const int64_t span = Span(tensor), item = tensor.itemsize();
  if (span > kMostSpan) return {};
  at::Tensor flat = at::empty({span / item}, options);
  auto* out = static_cast<char*>(flat.data_ptr());
  uint32_t found = 0;
  if (!memory.read(Begin(tensor), static_cast<size_t>(span), out, &found)) {
    const std::vector<Run> runs = tensor.is_non_overlapping_and_dense() ? std::vector<Run>() : Runs(tensor);
    if (runs.empty()) return {};
    for (const Run& run : runs) {
      uint32_t part = 0;
      if (!memory.read(Begin(tensor) + run.offset, static_cast<size_t>(run.bytes), out + run.offset, &part)) return {};
      if (found == 0) found = part;
    }
  }
  if (origin == 0) origin = found;
  return flat.as_strided(tensor.sizes(), tensor.strides(), 0);
}

void Forget(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const std::vector<Run> runs = Runs(tensor);
  for (const Run& run : runs) memory.forget(Begin(tensor) + run.offset, static_cast<size_t>(run.bytes));
  if (runs.empty()) memory.forget(Begin(tensor), static_cast<size_t>(Span(tensor)));
}

void Write(const at::Tensor& tensor, const at::Tensor& value, uint32_t origin) {
  if (tensor.numel() == 0) return;
  const int64_t span = Span(tensor), item = tensor.itemsize();
  const std::vector<Run> runs = Runs(tensor);
  const bool small = tensor.numel() * item <= LargestOf(tensor.scalar_type()) && span <= kMostSpan;
  if (runs.empty() || !small || !value.sizes().equals(tensor.sizes())) return Forget(tensor);
  at::Tensor flat = at::empty({span / item}, at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU));
  flat.as_strided(tensor.sizes(), tensor.strides(), 0).copy_(value);
  const auto* data = static_cast<const char*>(flat.data_ptr());
  for (const Run& run : runs)
    memory.write(Begin(tensor) + run.offset, static_cast<size_t>(run.bytes), data + run.offset, origin);
}

}  // namespace ebbtide_observer
