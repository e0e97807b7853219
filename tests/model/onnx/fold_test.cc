// The arithmetic of shapes, on the operators that exporters write it with.
#include "model/onnx/fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebbtide::model::onnx {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

Array Integers(std::vector<std::int64_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return IntegerArray({count}, std::move(values));
}

Folded Evaluated(const std::string& op, const std::vector<Array>& inputs,
                 std::vector<std::pair<std::string, AttributeValue>> attributes = {}) {
  KnownInputs known;
  for (const Array& input : inputs) known.push_back(&input);
  return Fold({.number = 0, .name = "", .op = op, .inputs = {}, .outputs = {}, .attributes = std::move(attributes)},
              known);
}

// All elements, however they are stored.
std::vector<std::int64_t> Elements(const Folded& array) {
  if (!array) return {-999};
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < *CountElements(array->shape); ++i) out.push_back(array->integer(i));
  return out;
}

TEST(FoldTest, ArithmeticBroadcasts) {
  EXPECT_THAT(Elements(Evaluated("Add", {Integers({1, 2, 3}), Integers({10})})), ElementsAre(11, 12, 13));
  EXPECT_THAT(Elements(Evaluated("Mul", {Integers({1, 2}), IntegerArray({2, 1}, {3, 4})})), ElementsAre(3, 6, 4, 8));
  EXPECT_THAT(Elements(Evaluated("Sub", {Integers({5}), Integers({7})})), ElementsAre(-2));
  EXPECT_THAT(Elements(Evaluated("Div", {Integers({-7, 7}), Integers({2})})), ElementsAre(-3, 3));
  EXPECT_THAT(Elements(Evaluated("Mod", {Integers({-7, 7}), Integers({3})})), ElementsAre(2, 1));
  EXPECT_THAT(Elements(Evaluated("Equal", {Integers({1, 2}), Integers({2})})), ElementsAre(0, 1));
  EXPECT_THAT(Elements(Evaluated("Where", {Evaluated("Equal", {Integers({-1, 2}), Integers({-1})}).value(),
                                           Integers({8}), Integers({-1, 2})})),
              ElementsAre(8, 2));
}

TEST(FoldTest, WhatOverflowsIsNotKnown) {
  EXPECT_FALSE(Evaluated("Add", {Integers({INT64_MAX}), Integers({1})}));
  EXPECT_FALSE(Evaluated("Sub", {Integers({INT64_MIN}), Integers({1})}));
  EXPECT_FALSE(Evaluated("Mul", {Integers({INT64_MAX}), Integers({2})}));
  EXPECT_FALSE(Evaluated("Div", {Integers({INT64_MIN}), Integers({-1})}));
  EXPECT_FALSE(Evaluated("Div", {Integers({1}), Integers({0})}));
  EXPECT_FALSE(Evaluated("Mod", {Integers({1}), Integers({0})}));
  EXPECT_FALSE(Evaluated("Neg", {Integers({INT64_MIN})}));
  EXPECT_FALSE(Evaluated("Cast", {RealArray({}, {1e300})}, {{"to", std::int64_t{7}}}));
  EXPECT_FALSE(Evaluated("Add", {Integers({1, 2}), Integers({1, 2, 3})}));
  EXPECT_FALSE(Evaluated("ReduceProd", {Integers({1 << 30, 1 << 30, 1 << 30})}));
}

TEST(FoldTest, RealNumbers) {
  EXPECT_THAT(Evaluated("Sqrt", {RealArray({}, {0.25})})->reals, ElementsAre(DoubleEq(0.5)));
  EXPECT_THAT(Evaluated("Mul", {RealArray({2}, {1.5, 2}), RealArray({}, {2})})->reals,
              ElementsAre(DoubleEq(3), DoubleEq(4)));
  EXPECT_THAT(Elements(Evaluated("Cast", {RealArray({2}, {2.9, -2.9})}, {{"to", std::int64_t{7}}})),
              ElementsAre(2, -2));
  EXPECT_THAT(Elements(Evaluated("Cast", {Integers({0, 5})}, {{"to", std::int64_t{9}}})), ElementsAre(0, 1));
}

TEST(FoldTest, PartsOfShapes) {
  const Array shape = Integers({2, 12, 512, 64});
  EXPECT_THAT(Elements(Evaluated("Gather", {shape, IntegerArray({}, {-1})}, {{"axis", std::int64_t{0}}})),
              ElementsAre(64));
  EXPECT_FALSE(Evaluated("Gather", {shape, IntegerArray({}, {4})}));
  EXPECT_THAT(Elements(Evaluated("Slice", {shape, Integers({1}), Integers({3})})), ElementsAre(12, 512));
  EXPECT_THAT(Elements(Evaluated("Slice", {shape, Integers({-2}), Integers({INT64_MAX})})), ElementsAre(512, 64));
  EXPECT_THAT(Elements(Evaluated("Slice", {shape, Integers({INT64_MIN}), Integers({-2})})), ElementsAre(2, 12));
  EXPECT_THAT(
      Elements(Evaluated("Slice", {shape, Integers({-1}), Integers({INT64_MIN}), Integers({0}), Integers({-2})})),
      ElementsAre(64, 12));
  EXPECT_THAT(
      Elements(Evaluated("Concat", {Integers({-1}), Evaluated("Slice", {shape, Integers({2}), Integers({4})}).value()},
                         {{"axis", std::int64_t{0}}})),
      ElementsAre(-1, 512, 64));
  EXPECT_THAT(Elements(Evaluated("ReduceProd", {shape}, {{"keepdims", std::int64_t{0}}})),
              ElementsAre(2 * 12 * 512 * 64));
}

TEST(FoldTest, OtherShapesOfTheSameElements) {
  const Array six = Integers({1, 2, 3, 4, 5, 6});
  const Folded two_by_three = Evaluated("Reshape", {six, Integers({2, -1})});
  EXPECT_EQ(two_by_three->shape, (Dims{2, 3}));
  EXPECT_THAT(Elements(Evaluated("Transpose", {*two_by_three})), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(Elements(Evaluated("Gather", {*two_by_three, Integers({2, 0})}, {{"axis", std::int64_t{1}}})),
              ElementsAre(3, 1, 6, 4));
  EXPECT_EQ(Evaluated("Unsqueeze", {six, Integers({0, 2})})->shape, (Dims{1, 6, 1}));
  EXPECT_EQ(Evaluated("Squeeze", {IntegerArray({1, 2, 1}, {1, 2}), Integers({0})})->shape, (Dims{2, 1}));
  EXPECT_EQ(Evaluated("Squeeze", {IntegerArray({1, 2, 1}, {1, 2})})->shape, (Dims{2}));
  EXPECT_EQ(Evaluated("Flatten", {*two_by_three}, {{"axis", std::int64_t{0}}})->shape, (Dims{1, 6}));
  EXPECT_THAT(Elements(Evaluated("Expand", {IntegerArray({2, 1}, {1, 2}), Integers({3, 1, 2})})),
              ElementsAre(1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2));
  EXPECT_FALSE(Evaluated("Reshape", {six, Integers({4, -1})}));
  EXPECT_FALSE(Evaluated("Reshape", {six, Integers({-1, -1})}));
}

TEST(FoldTest, Counting) {
  EXPECT_THAT(Elements(Evaluated("Range", {IntegerArray({}, {2}), IntegerArray({}, {9}), IntegerArray({}, {3})})),
              ElementsAre(2, 5, 8));
  EXPECT_FALSE(Evaluated("Range", {IntegerArray({}, {0}), IntegerArray({}, {9}), IntegerArray({}, {0})}));
  EXPECT_FALSE(Evaluated("Range", {IntegerArray({}, {0}), IntegerArray({}, {1 << 20}), IntegerArray({}, {1})}));
  // How old exports count: the places of ones.
  const Array ones = Evaluated("ConstantOfShape", {Integers({3})},
                               {{"value", Constant{.dtype = DType::kInt64, .shape = {1}, .contents = Integers({1})}}})
                         .value();
  EXPECT_THAT(Elements(Evaluated("NonZero", {ones})), ElementsAre(0, 1, 2));
}

TEST(FoldTest, EqualElementsMayBeMany) {
  // A mask of ones over [64, 1, 4096, 4096] stays one number.
  const Array one = IntegerArray({}, {1}, DType::kBool);
  const Folded mask = Evaluated("Expand", {one, Integers({64, 1, 4096, 4096})});
  ASSERT_TRUE(mask);
  EXPECT_EQ(mask->stored(), 1u);
  const Folded additive = Evaluated("Where", {*mask, RealArray({}, {0}), RealArray({}, {-1e9})});
  ASSERT_TRUE(additive);
  EXPECT_EQ(additive->shape, (Dims{64, 1, 4096, 4096}));
  EXPECT_EQ(additive->real(0), 0);
  // But not if they differ.
  EXPECT_FALSE(Evaluated("Expand", {Integers({1, 2}), Integers({4096, 2})}));
}

TEST(FoldTest, ShapesThatAreTooLarge) {
  EXPECT_FALSE(Evaluated("ConstantOfShape", {Integers({INT64_MAX, INT64_MAX})}));
  EXPECT_FALSE(Evaluated("ConstantOfShape", {Integers({-1})}));
  EXPECT_FALSE(Evaluated("Expand", {IntegerArray({}, {1}), Integers({-3})}));
  EXPECT_FALSE(Evaluated("Unsqueeze", {Integers({1}), Integers(std::vector<std::int64_t>(40, 0))}));
}

}  // namespace
}  // namespace ebbtide::model::onnx
