// Operators whose result has a size that depends on contents: nonzero, unique, masked_select, nms and their like.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/nonzero.h>

#include "values_call.h"

namespace ebbtide_observer {
namespace {

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
    case Sizes::kConsecutive:
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

// A mask says how many are selected, whatever they are selected from, and numbers how many there are to count, whatever
// they weigh.
std::optional<int64_t> SizeByOneArgument(const Call& call, uint32_t& origin) {
  const Sizes sizes = call.rule->sizes;
  if (sizes != Sizes::kMaskedSelect && sizes != Sizes::kBincount) return std::nullopt;
  const at::Tensor& deciding = call.arguments[sizes == Sizes::kMaskedSelect ? 1 : 0].toTensor();
  const at::Tensor known = IsPlainOnHost(deciding) ? deciding : Read(deciding, origin);
  if (!known.defined()) return std::nullopt;
  if (known.numel() == 0) return 0;
  if (sizes == Sizes::kBincount) return known.max().item<int64_t>();
  // Each of its elements stands for all that it is broadcast to.
  int64_t all = 1;
  for (const int64_t size : at::infer_size(call.arguments[0].toTensor().sizes(), known.sizes())) all *= size;
  return at::count_nonzero(known).item<int64_t>() * (all / known.numel());
}

}  // namespace

void PrepareSize(Call& call) {
  const Rule& rule = *call.rule;
  Quiet quiet;
  if (call.eligible) call.computed = Compute(rule, call.arguments);
  if (call.computed) {
    call.size = KnownSize(rule, *call.computed);
    call.origin = call.computed->origin;
    return;
  }
  if (const std::optional<int64_t> size = SizeByOneArgument(call, call.origin)) {
    call.size = size;
    call.size_is_known = true;
    return;
  }
  call.size = AssumedSize(rule, call.arguments);
  call.origin = OriginOf(AssumptionOf(rule.sizes), rule.name, Line());
}

void NoteSize(const Call& call, const std::vector<at::Tensor>& results) {
  if (call.origin == 0 || call.rule->sizes == Sizes::kByShape) return;
  for (const Call* outer : calls)
    if (outer->size) return;  // told there
  const std::string led_to = call.rule->sizes == Sizes::kEqual          ? std::string(*call.size ? "true" : "false")
                             : results.empty() || !results[0].defined() ? std::string()
                                                                        : "a size of " + ShapeOf(results[0].sizes());
  if (call.computed || call.size_is_known)
    RecordOrigin(call.origin, Line(), call.rule->name, led_to);
  else
    Record(AssumptionOf(call.rule->sizes), Line(), call.rule->name + " of what skipped kernels would have made",
           led_to);
}

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

}  // namespace ebbtide_observer
