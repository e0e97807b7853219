// Shapes of what is cut out of tensors.
#include <algorithm>

#include "model/tensorflow/fold.h"
#include "model/tensorflow/inference.h"

namespace ebbtide::model::tensorflow {
namespace {

struct Range {
  std::int64_t start = 0, step = 1, count = 0;
};

// Elements of an array that is known; `shape` may lack axes of which one place is taken.
std::optional<Array> PickRange(const Array* known, const Dims& from, const Dims& shape, const std::vector<Range>& cut) {
  if (known == nullptr) return std::nullopt;
  return Picked(*known, shape, [&](std::int64_t i) {
    std::int64_t place = 0, step = 1;
    for (std::size_t axis = from.size(); axis-- > 0;) {
      const std::int64_t count = std::max<std::int64_t>(cut[axis].count, 1);
      place += (cut[axis].start + i % count * cut[axis].step) * step;
      i /= count;
      step *= from[axis];
    }
    return place;
  });
}

}  // namespace

Status InferSlice(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(3));
  EBB_ASSIGN_OR_RETURN(const Dims begin, at.Integers(1));
  EBB_ASSIGN_OR_RETURN(const Dims sizes, at.Integers(2));
  const Dims from = at.Shape(0);
  if (begin.size() != from.size() || sizes.size() != from.size())
    return Fail("expected {} begins and sizes", from.size());
  Dims shape;
  std::vector<Range> cut;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (begin[i] < 0 || begin[i] > from[i]) return Fail("expected a begin within {}", from[i]);
    const std::int64_t size = sizes[i] == -1 ? from[i] - begin[i] : sizes[i];
    if (size < 0 || size > from[i] - begin[i]) return Fail("expected a size within {}", from[i] - begin[i]);
    shape.push_back(size);
    cut.push_back({begin[i], 1, size});
  }
  std::optional<Array> known = PickRange(at.Known(0), from, shape, cut);
  at.Yield(at.TypeOf(0), std::move(shape), std::move(known));
  return {};
}

Status InferStridedSlice(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(4));
  EBB_ASSIGN_OR_RETURN(const Dims begins, at.Integers(1));
  EBB_ASSIGN_OR_RETURN(const Dims ends, at.Integers(2));
  EBB_ASSIGN_OR_RETURN(const Dims strides, at.Integers(3));
  if (begins.size() != ends.size() || begins.size() != strides.size() || begins.size() > kMostAxes)
    return Fail("expected as many begins as ends and strides");
  const auto has = [&](const char* mask, std::size_t bit) { return (at.Integer(mask, 0) >> bit & 1) != 0; };
  const Dims from = at.Shape(0);
  Dims shape;
  std::vector<Range> cut;
  std::size_t named = 0;  // axes that the specification names
  for (std::size_t k = 0; k < begins.size(); ++k) named += !has("ellipsis_mask", k) && !has("new_axis_mask", k);
  std::size_t axis = 0;
  const auto whole = [&] {
    shape.push_back(from[axis]);
    cut.push_back({0, 1, from[axis]});
    ++axis;
  };
  for (std::size_t k = 0; k < begins.size(); ++k) {
    if (has("ellipsis_mask", k)) {
      for (std::size_t rest = from.size() - std::min(from.size(), named); rest > 0 && axis < from.size(); --rest)
        whole();
      continue;
    }
    if (has("new_axis_mask", k)) {
      shape.push_back(1);
      continue;
    }
    if (axis >= from.size()) return Fail("expected at most {} axes", from.size());
    const std::int64_t size = from[axis], step = strides[k];
    if (step == 0 || std::abs(step) > kMostElements) return Fail("expected strides other than 0");
    const auto bring_in = [&](std::int64_t place) {
      if (place < 0) place += size;
      return step > 0 ? std::clamp<std::int64_t>(place, 0, size) : std::clamp<std::int64_t>(place, -1, size - 1);
    };
    if (has("shrink_axis_mask", k)) {
      const std::int64_t place = begins[k] < 0 ? begins[k] + size : begins[k];
      if (place < 0 || place >= size) return Fail("place {}: expected one of {}", begins[k], size);
      cut.push_back({place, 1, 1});
      ++axis;
      continue;
    }
    const std::int64_t first = has("begin_mask", k) ? (step > 0 ? 0 : size - 1) : bring_in(begins[k]);
    const std::int64_t last = has("end_mask", k) ? (step > 0 ? size : -1) : bring_in(ends[k]);
    const std::int64_t span = step > 0 ? last - first : first - last;
    const std::int64_t count = span <= 0 ? 0 : (span + std::abs(step) - 1) / std::abs(step);
    shape.push_back(count);
    cut.push_back({first, step, count});
    ++axis;
  }
  while (axis < from.size()) whole();
  std::optional<Array> known = PickRange(at.Known(0), from, shape, cut);
  at.Yield(at.TypeOf(0), std::move(shape), std::move(known));
  return {};
}

Status InferStridedSliceGradient(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(5));
  EBB_ASSIGN_OR_RETURN(Dims shape, at.ShapeFrom(0));
  at.Yield(at.TypeOf(4), std::move(shape));
  return {};
}

}  // namespace ebbtide::model::tensorflow
