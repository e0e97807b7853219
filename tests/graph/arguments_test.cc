// The order of axes that permute, transpose and t ask for.
#include "graph/arguments.h"

#include <gtest/gtest.h>

namespace ebbtide {
namespace {

Op WithArguments(std::vector<Argument> arguments) {
  Op op;
  op.arguments = std::move(arguments);
  return op;
}

TEST(AxisOrder, OfPermuteTransposeAndT) {
  const Op permute = WithArguments({{.name = "dims", .value = Dims{2, 0, 1}}});
  EXPECT_EQ(AxisOrder(permute, 3), (Dims{2, 0, 1}));
  const Op transpose =
      WithArguments({{.name = "dim0", .value = std::int64_t{-1}}, {.name = "dim1", .value = std::int64_t{1}}});
  EXPECT_EQ(AxisOrder(transpose, 4), (Dims{0, 3, 2, 1}));
  EXPECT_EQ(AxisOrder(WithArguments({}), 2), (Dims{1, 0}));
}

TEST(AxisOrder, LeavesWhatHasNoSuchAxes) {
  EXPECT_EQ(AxisOrder(WithArguments({}), 1), (Dims{0}));
  const Op beyond =
      WithArguments({{.name = "dim0", .value = std::int64_t{7}}, {.name = "dim1", .value = std::int64_t{-9}}});
  EXPECT_EQ(AxisOrder(beyond, 2), (Dims{0, 1}));
}

}  // namespace
}  // namespace ebbtide
