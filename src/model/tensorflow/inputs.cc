// The default sizes of images and sequences.
#include "model/tensorflow/inputs.h"

namespace ebbtide::model::tensorflow {
namespace {

constexpr std::int64_t kImageSize = 224, kTokens = 128, kChannels = 3;

}  // namespace

Result<Dims> BindInput(const std::optional<Dims>& declared, DType dtype, const ModelOptions& options) {
  if (!declared) return Fail("attribute shape: expected the number of axes");
  Dims shape = *declared;
  const bool is_image = shape.size() == 4 && IsFloating(dtype);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::optional<std::int64_t> wanted;
    std::int64_t otherwise = kTokens;
    const char* flag = "--seq-len";
    if (i == 0) {
      wanted = options.batch_size;
    } else if (is_image && (i == 3 || shape[3] > 4) && i != 2) {
      otherwise = kChannels;  // NHWC, or NCHW where the last axis is long
      if (shape[i] != -1) continue;
    } else if (is_image) {
      wanted = options.image_size;
      otherwise = kImageSize;
      flag = "--image-size";
    } else if (i == 1) {
      wanted = options.seq_len;
    }
    if (shape[i] == -1) {
      shape[i] = wanted.value_or(otherwise);
    } else if (i > 0 && wanted && *wanted != shape[i] && (is_image || !IsFloating(dtype))) {
      return Fail("{} {}: the file has {} there", flag, *wanted, shape[i]);
    }
  }
  if (!CountElements(shape)) return Fail("expected at most 2^48 elements");
  return shape;
}

}  // namespace ebbtide::model::tensorflow
