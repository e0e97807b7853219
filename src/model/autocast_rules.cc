// One row per precision: the functions of torch's lists for CUDA (ATen/autocast_mode.h) that models here can call. What
// is not listed takes its operands as they come. torch's list of functions that promote (addcmul, atan2, ...) has none
// that we record.
#include "model/autocast_rules.h"

#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "model/ops.h"

namespace ebbtide::model {

namespace {

struct Row {
  Precision precision;
  const char* functions;
};

constexpr Row kTable[] = {
    {Precision::kLow, "convolution linear matmul mm bmm addmm baddbmm scaled_dot_product_attention prelu _cudnn_rnn"},
    {Precision::kFloat32,
     "exp log pow reciprocal rsqrt softplus logsumexp layer_norm group_norm rms_norm nll_loss upsample_nearest1d "
     "upsample_linear1d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_nearest3d "
     "upsample_trilinear3d"},
    {Precision::kFloat32Result, "softmax log_softmax sum prod cumsum linalg_vector_norm"},
};

bool IsLow(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

bool IsActive(const Builder& b) { return b.options().autocast && b.phase() == Phase::kForward; }

void CastDown(Builder& b, TensorId& x) {
  const DType low = *b.options().autocast;
  if (!x.valid() || b.at(x).dtype != DType::kFloat32) return;
  // Parameters alone are remembered: they do not change within a pass.
  const bool remembered = b.IsTrainedParameter(x);
  if (remembered && b.cast_of(x).valid()) {
    x = b.cast_of(x);
    return;
  }
  const TensorId copy = op::Cast(b, x, low);
  if (remembered) b.RememberCast(x, copy);
  x = copy;
}

}  // namespace

Precision PrecisionOf(std::string_view function) {
  static const auto* precisions = [] {
    auto* map = new std::map<std::string, Precision, std::less<>>;
    for (const Row& row : kTable) {
      std::istringstream words(row.functions);
      for (std::string word; words >> word;) map->emplace(word, row.precision);
    }
    return map;
  }();
  const auto found = precisions->find(function);
  return found == precisions->end() ? Precision::kUntouched : found->second;
}

void Autocast(Builder& b, std::string_view function, std::initializer_list<TensorId*> operands) {
  if (!IsActive(b)) return;
  const Precision precision = PrecisionOf(function);
  for (auto at = std::rbegin(operands); at != std::rend(operands); ++at) {  // as compilers evaluate torch's arguments
    TensorId* x = *at;
    if (precision == Precision::kLow) CastDown(b, *x);
    if (precision == Precision::kFloat32 && x->valid() && IsLow(b.at(*x).dtype)) *x = op::Cast(b, *x, DType::kFloat32);
  }
}

DType AutocastResult(Builder& b, std::string_view function, TensorId& x) {
  const DType own = b.at(x).dtype;
  if (!IsActive(b) || PrecisionOf(function) != Precision::kFloat32Result || !IsLow(own)) return own;
  // Softmax widens float16 only; sums widen anything.
  const bool is_softmax = function == "softmax" || function == "log_softmax";
  if (is_softmax && own != DType::kFloat16) x = op::Cast(b, x, DType::kFloat32);
  return DType::kFloat32;
}

}  // namespace ebbtide::model
