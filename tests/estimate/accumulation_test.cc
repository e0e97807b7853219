// Requests of an update that sums the gradients of two batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "estimate/training.h"
#include "tests/estimate/step_maker.h"

namespace ebbtide::estimate {
namespace {

using ::testing::ElementsAre;

// Twice h = fc(x, w); w.grad(h), the second time added to the first; then w -= w.grad.
TrainingGraph TwoBatches() {
  StepMaker step;
  const TensorId w = step.Persistent(StorageKind::kParameter, "w", 100);
  const TensorId x = step.Persistent(StorageKind::kInput, "x", 10);
  const auto batch = [&] {
    const TensorId h = step.CallOne("fc", Phase::kForward, {x, w}, 20);
    step.graph.ops.back().layer = "fc";
    return step.CallOne("fc_backward", Phase::kBackward, {h}, 100);
  };
  const TensorId first = batch();
  step.MarkGradient(first, "w.grad");
  const TensorId second = batch();
  step.CallOne("add", Phase::kBackward, {first, second}, 1);
  step.CallOne("sub", Phase::kUpdate, {first, w}, 2);
  return step.graph;
}

// What the model returned (fc) and the batch (x) go when those of the next batch are there, within an update and from
// one to the next. The first gradient stays for both.
TEST(Accumulation, ABatchTakesThePlaceOfTheLast) {
  EXPECT_THAT(Words(TwoBatches(), {.iterations = 2, .zero_grad = ZeroGrad::kBeforeBackward}),
              ElementsAre("+100 w",                                                    //
                          "iteration", "+10 x", "+20 fc", "+100 w.grad",               //
                          "+10 x", "-10 x", "+20 fc", "-20 fc", "+100 fc_backward",    //
                          "+1 add", "-100 fc_backward", "-1 add", "+2 sub", "-2 sub",  //
                          "iteration", "+10 x", "-10 x", "+20 fc", "-20 fc",           //
                          "-100 w.grad", "+100 w.grad",                                //
                          "+10 x", "-10 x", "+20 fc", "-20 fc", "+100 fc_backward",    //
                          "+1 add", "-100 fc_backward", "-1 add", "+2 sub", "-2 sub"));
}

}  // namespace
}  // namespace ebbtide::estimate
