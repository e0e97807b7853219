// Reads the attributes by the data format and computes the output's size for SAME, VALID and EXPLICIT.
#include "model/tensorflow/window.h"

#include <algorithm>

#include "base/json_text.h"

namespace ebbtide::model::tensorflow {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;

bool IsSize(std::int64_t size) { return size > 0 && size <= kMost; }

}  // namespace

Result<Window> WindowOf(const Attributes& attributes, const Dims& image, const Dims& kernel) {
  const auto text = [&](std::string_view name, const char* otherwise) {
    const auto* value = AttributeAs<std::string>(attributes, name);
    return value ? *value : std::string(otherwise);
  };
  const std::string format = text("data_format", "NHWC"), padding = text("padding", "VALID");
  if (format != "NHWC" && format != "NCHW") return Fail("data_format: expected NHWC or NCHW");
  Window window;
  window.channel = format == "NCHW" ? 1 : 3;
  window.row = format == "NCHW" ? 2 : 1;
  window.kernel = kernel;
  const auto sizes = [&](std::string_view name, std::size_t axis) -> std::int64_t {
    const auto* values = AttributeAs<std::vector<std::int64_t>>(attributes, name);
    return values && values->size() == 4 ? (*values)[axis] : 1;
  };
  const auto* paddings = AttributeAs<std::vector<std::int64_t>>(attributes, "explicit_paddings");
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t axis = window.row + i;
    const std::int64_t stride = sizes("strides", axis), dilation = sizes("dilations", axis);
    if (!IsSize(stride) || !IsSize(dilation) || !IsSize(kernel[i]) || !IsSize(image[axis]))
      return Fail("expected sizes from 1 to 2^30");
    const std::int64_t reach = (kernel[i] - 1) * dilation + 1;
    std::int64_t before = 0, after = 0, out = 0;
    if (padding == "SAME") {
      out = (image[axis] + stride - 1) / stride;
      const std::int64_t missing = std::max<std::int64_t>((out - 1) * stride + reach - image[axis], 0);
      before = missing / 2;
    } else {
      if (padding == "EXPLICIT" && paddings && paddings->size() == 8) {
        before = (*paddings)[2 * axis];
        after = (*paddings)[2 * axis + 1];
      } else if (padding != "VALID") {
        return Fail("padding {}: expected SAME, VALID or EXPLICIT", Quoted(padding));
      }
      if (before < 0 || after < 0 || before > kMost || after > kMost) return Fail("explicit_paddings: expected sizes");
      out = (image[axis] + before + after - reach) / stride + 1;
      if (image[axis] + before + after < reach) return Fail("the window is larger than the image");
    }
    window.stride.push_back(stride);
    window.dilation.push_back(dilation);
    window.before.push_back(before);
    window.out.push_back(out);
  }
  return window;
}

}  // namespace ebbtide::model::tensorflow
