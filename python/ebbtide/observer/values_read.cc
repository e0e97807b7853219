// What a program reads from the device: known, or filled by an assumption that is written down.
#include <ATen/ops/empty.h>

#include <cstring>

#include "frames.h"
#include "values_call.h"

namespace ebbtide_observer {
namespace {

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
  char text[64];
  if (c10::isComplexType(type)) {
    const c10::complex<double> number = value.item().toComplexDouble();
    std::snprintf(text, sizeof(text), "%g%+gj", number.real(), number.imag());
  } else {
    std::snprintf(text, sizeof(text), "%g", value.item().toDouble());
  }
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

// torch's truncated normal distribution draws again as long as a draw lies outside: with an assumed mask, for ever.
bool AsksWhetherToDrawAgain(c10::ScalarType type, size_t bytes) {
  return type == at::kBool && bytes == 1 && IsInside("_no_grad_trunc_normal_");
}

}  // namespace

int OnRead(const void* address, size_t bytes, int known, uint32_t origin, void* out) {
  if (Quiet::IsActive()) return 0;
  for (auto call = calls.begin(); call != calls.end(); ++call) {  // the outermost one knows for those inside
    if (!(*call)->size) continue;
    if (known || out == nullptr || bytes > 8) return 0;
    const int64_t size = *(*call)->size;
    std::memcpy(out, &size, bytes);
    return (*call)->origin == 0 ? 2 : 1;
  }
  for (const Call* call : calls) {  // whether a factorisation succeeded, which its caller raises an error by
    if (known || call->rule->name != "aten::_linalg_check_errors") continue;
    Record(Assumed::kSolved, Line(), calls.front()->rule->name, "no error");
    if (out != nullptr) std::memset(out, 0, bytes);
    return 1;
  }
  const Call* inner = calls.empty() ? nullptr : calls.back();
  const std::string what = inner ? ReadName(calls.front()->rule->name) : "a copy to the host";
  if (!known && (!inner || !IsRead(inner->rule->name))) {  // what a kernel asks about its own scratch memory
    Record(Assumed::kZeros, Line(), what + " reads back what its skipped kernel would have made",
           std::to_string(bytes) + " bytes");
    return 0;
  }
  const c10::ScalarType type = inner && inner->type ? *inner->type : at::kByte;
  if (out != nullptr && (!known || IsOrigin(origin, Assumed::kMasks)) && AsksWhetherToDrawAgain(type, bytes)) {
    Fill<uint8_t>(out, bytes, 0);
    Record(Assumed::kWithinBounds, Line(), "trunc_normal_", Shown(type, out, bytes));
    return 1;
  }
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

}  // namespace ebbtide_observer
