// Operators that give shapes as numbers, and those that make tensors from them or from chance.
#include <cmath>

#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

Status Shape(Call& call) {
  EBB_ASSIGN_OR_RETURN(const Dims shape, call.Shape(0));
  const auto rank = static_cast<std::int64_t>(shape.size());
  auto inside = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const std::int64_t start = inside(call.Int("start", 0)), end = std::max(inside(call.Int("end", rank)), start);
  const Dims part(shape.begin() + start, shape.begin() + end);
  return call.SetContents(0, IntegerArray({end - start}, part));
}

Status Size(Call& call) {
  EBB_ASSIGN_OR_RETURN(const Dims shape, call.Shape(0));
  return call.SetContents(0, IntegerArray({}, {ElementCount(shape)}));
}

// Larger than what is followed as contents.
Status Range(Call& call) {
  const auto start = call.Number(0), limit = call.Number(1), step = call.Number(2);
  if (!start || !limit || !step)
    return call.Wrong("expected start, limit and step that follow from constants and shapes");
  const double count = std::ceil((*limit - *start) / *step);
  if (!(count >= 1 && count <= static_cast<double>(kMostElements))) {
    return call.Wrong(
        fmt::format("from {} to {} by {}: expected at least one element, at most 2^48", *start, *limit, *step));
  }
  EBB_ASSIGN_OR_RETURN(const DType dtype, call.Type(0));
  const auto elements = static_cast<std::int64_t>(count);
  return call.Set(0, call.b.CallOne("arange", {{"end", elements}}, {{elements}, dtype}));
}

Status ConstantOfShape(Call& call) {
  EBB_ASSIGN_OR_RETURN(const Dims shape, call.Integers(0));
  return call.Wrong(fmt::format("shape {}: expected a positive size per axis, and one value", ShapeText(shape)));
}

// A tensor of random numbers, shaped like the input or by the attribute.
Status Random(Call& call) {
  Dims shape = call.Ints("shape").value_or(Dims{});
  DType dtype = DType::kFloat32;
  if (!call.node.inputs.empty()) {
    EBB_ASSIGN_OR_RETURN(shape, call.Shape(0));
    EBB_ASSIGN_OR_RETURN(dtype, call.Type(0));
  }
  if (call.node.FindAttribute("dtype")) {
    const auto wanted = TypeFromNumber(call.Int("dtype", 0));
    if (!wanted) return call.Wrong("dtype: expected a type that torch has");
    dtype = *wanted;
  }
  if (!CountElements(shape))
    return call.Wrong(fmt::format("shape {}: expected a positive size per axis", ShapeText(shape)));
  const bool normal = call.node.op.find("Normal") != std::string::npos;
  const char* kind = call.node.op == "Bernoulli" ? "bernoulli" : normal ? "randn" : "rand";
  return call.Set(0, call.b.CallOne(kind, {{"size", shape}}, {shape, dtype}, {{}, true}));
}

constexpr OperatorRow kRules[] = {
    {"Shape", 1, 1, Shape},
    {"Size", 1, 1, Size},
    {"Range", 3, 3, Range},
    {"ConstantOfShape", 1, 1, ConstantOfShape},
    {"RandomUniform", 0, 0, Random},
    {"RandomNormal", 0, 0, Random},
    {"RandomUniformLike", 1, 1, Random},
    {"RandomNormalLike", 1, 1, Random},
    {"Bernoulli", 1, 1, Random},
};

}  // namespace

std::span<const OperatorRow> SourceRules() { return kRules; }

}  // namespace ebbtide::model::onnx
