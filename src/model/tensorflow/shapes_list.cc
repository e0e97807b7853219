// Lists of tensors, which loops collect their results and what backward needs in. Their items are followed one by one.
#include <algorithm>

#include "model/tensorflow/inference.h"

namespace ebbtide::model::tensorflow {
namespace {

Result<std::size_t> PlaceIn(const Inference& at, std::size_t input, std::size_t items) {
  EBB_ASSIGN_OR_RETURN(const Dims place, at.Integers(input));
  if (place.size() != 1 || place[0] < 0 || place[0] >= static_cast<std::int64_t>(items))
    return Fail("expected a place in a list of {}", items);
  return static_cast<std::size_t>(place[0]);
}

}  // namespace

// TensorListReserve has a number of items, EmptyTensorList none.
Status InferListReserve(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  if (at.op() == "EmptyTensorList") {
    at.YieldList({});
    return {};
  }
  EBB_ASSIGN_OR_RETURN(const Dims count, at.Integers(1));
  if (count.size() != 1 || count[0] < 0 || count[0] > static_cast<std::int64_t>(kMostNodeInputs))
    return Fail("expected 0 to {} items", kMostNodeInputs);
  at.YieldList(std::vector<ValueId>(static_cast<std::size_t>(count[0]), kNone));
  return {};
}

// Its items are parts of the tensor: nothing is copied.
Status InferListFromTensor(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  Dims shape = at.Shape(0);
  if (shape.empty() || shape[0] > static_cast<std::int64_t>(kMostNodeInputs))
    return Fail("expected at most {} items", kMostNodeInputs);
  const std::int64_t count = shape[0];
  const Type type = at.TypeOf(0);
  shape.erase(shape.begin());
  at.YieldList({});
  std::vector<ValueId> items;
  for (std::int64_t i = 0; i < count; ++i) {
    at.Yield(type, shape);
    items.push_back(at.node().outputs.back());
  }
  at.flat().lists.back() = std::move(items);
  return {};
}

Status InferListGet(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(3));
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> items, at.List(0));
  EBB_ASSIGN_OR_RETURN(const std::size_t place, PlaceIn(at, 1, items.size()));
  if (items[place] != kNone) {
    at.YieldSame(items[place]);
    return {};
  }
  // Zeros of the shape that is asked for.
  EBB_ASSIGN_OR_RETURN(Dims shape, at.ShapeFrom(2));
  at.Yield(at.TypeFrom("element_dtype", {}), std::move(shape));
  return {};
}

Status InferListSet(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(3));
  EBB_ASSIGN_OR_RETURN(std::vector<ValueId> items, at.List(0));
  EBB_ASSIGN_OR_RETURN(const std::size_t place, PlaceIn(at, 1, items.size()));
  items[place] = at.node().inputs[2];
  at.YieldList(std::move(items));
  return {};
}

Status InferListPush(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(std::vector<ValueId> items, at.List(0));
  items.push_back(at.node().inputs[1]);
  at.YieldList(std::move(items));
  return {};
}

Status InferListPop(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(std::vector<ValueId> items, at.List(0));
  if (items.empty() || items.back() == kNone) return Fail("expected a list with an item");
  const ValueId last = items.back();
  items.pop_back();
  at.YieldList(std::move(items));
  at.YieldSame(last);
  return {};
}

Status InferListStack(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(2));
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> items, at.List(0));
  const auto set = std::find_if(items.begin(), items.end(), [](ValueId item) { return item != kNone; });
  Type type = at.TypeFrom("element_dtype", {});
  Dims shape;
  if (set != items.end()) {
    shape = at.flat().value(*set).shape;
    type = at.flat().value(*set).type;
  } else {
    EBB_ASSIGN_OR_RETURN(shape, at.ShapeFrom(1));
  }
  shape.insert(shape.begin(), static_cast<std::int64_t>(items.size()));
  std::vector<ValueId> parts = items;
  std::erase(parts, kNone);
  at.Read(std::move(parts));
  at.Yield(type, std::move(shape));
  return {};
}

// AddN of tensors, or of lists of which each has items of its own.
Status InferSum(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1, kMostNodeInputs));
  if (at.TypeOf(0).kind == Kind::kNumbers) {
    at.Yield(at.TypeOf(0), at.Shape(0));
    return {};
  }
  EBB_ASSIGN_OR_RETURN(std::vector<ValueId> sum, at.List(0));
  for (std::size_t i = 1; i < at.inputs(); ++i) {
    EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> items, at.List(i));
    if (items.size() > sum.size()) sum.resize(items.size(), kNone);
    for (std::size_t k = 0; k < items.size(); ++k) {
      if (items[k] == kNone) continue;
      if (sum[k] != kNone) return Fail("sums of lists whose items are both set are not followed");
      sum[k] = items[k];
    }
  }
  at.YieldList(std::move(sum));
  return {};
}

Status InferListLength(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1));
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> items, at.List(0));
  at.Yield({Kind::kNumbers, DType::kInt32}, {},
           IntegerArray({}, {static_cast<std::int64_t>(items.size())}, DType::kInt32));
  return {};
}

Status InferListElementShape(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1));
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> items, at.List(0));
  const auto set = std::find_if(items.begin(), items.end(), [](ValueId item) { return item != kNone; });
  const Dims shape = set == items.end() ? Dims{} : at.flat().value(*set).shape;
  at.YieldIntegers(shape, at.TypeFrom("shape_type", {Kind::kNumbers, DType::kInt32}));
  return {};
}

}  // namespace ebbtide::model::tensorflow
