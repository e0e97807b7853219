// The order of a training's requests, on steps small enough to be followed by hand.
#include "estimate/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/profile.h"
#include "estimate/model_order.h"
#include "estimate/module_calls.h"
#include "tests/estimate/step_maker.h"

namespace ebbtide::estimate {
namespace {

using ::testing::ElementsAre;
using Strings = std::vector<std::string>;

// h = relu(x, w); loss(h); w.grad(h, loss); w -= m(w.grad). The loss is referenced when the step has ended.
TrainingGraph OneLayer(const std::string& optimizer = "adam") {
  StepMaker step;
  const TensorId w = step.Persistent(StorageKind::kParameter, "w", 100);
  const TensorId m = step.Persistent(StorageKind::kOptimizerState, "m", 200);
  const TensorId x = step.Persistent(StorageKind::kInput, "x", 10);
  const TensorId h = step.CallOne("relu", Phase::kForward, {x, w}, 20);
  const TensorId loss = step.CallOne("loss", Phase::kForward, {h}, 4);
  const TensorId grad = step.CallOne("relu_backward", Phase::kBackward, {h, loss}, 100);
  step.MarkGradient(grad, "w.grad");
  step.CallOne("sqrt", Phase::kUpdate, {grad, w, m}, 50);
  step.graph.outputs = {loss};
  step.graph.makes_state_early = optimizer == std::string("adagrad");
  return step.graph;
}

TEST(RunTraining, GradientsGoWhenAnIterationBegins) {
  EXPECT_THAT(Words(OneLayer(), {.iterations = 2, .zero_grad = ZeroGrad::kStart}),
              ElementsAre("+100 w",                                      //
                          "iteration", "+10 x", "+20 relu", "+4 loss",   //
                          "+100 w.grad", "-20 relu",                     // the last use of h
                          "+200 m", "+50 sqrt", "-50 sqrt",              // state: in the first update
                          "iteration", "-100 w.grad", "+10 x", "-10 x",  // the new batch is there before the old goes
                          "+20 relu", "+4 loss", "-4 loss",              // so is the new loss
                          "+100 w.grad", "-20 relu", "+50 sqrt", "-50 sqrt"));
}

TEST(RunTraining, GradientsGoBeforeBackward) {
  EXPECT_THAT(Words(OneLayer(), {.iterations = 2, .zero_grad = ZeroGrad::kBeforeBackward}),
              ElementsAre("+100 w", "iteration", "+10 x", "+20 relu", "+4 loss", "+100 w.grad", "-20 relu", "+200 m",
                          "+50 sqrt", "-50 sqrt", "iteration", "+10 x", "-10 x", "+20 relu", "+4 loss", "-4 loss",
                          "-100 w.grad", "+100 w.grad", "-20 relu", "+50 sqrt", "-50 sqrt"));
}

TEST(RunTraining, GradientsGoAtTheEnd) {
  EXPECT_THAT(Words(OneLayer(), {.iterations = 1, .zero_grad = ZeroGrad::kEnd}),
              ElementsAre("+100 w", "iteration", "+10 x", "+20 relu", "+4 loss", "+100 w.grad", "-20 relu", "+200 m",
                          "+50 sqrt", "-50 sqrt", "-100 w.grad"));
}

TEST(RunTraining, AdagradMakesItsStateBeforeTheFirstIteration) {
  const Strings words = Words(OneLayer("adagrad"), {.iterations = 1});
  EXPECT_THAT(Strings(words.begin(), words.begin() + 3), ElementsAre("+100 w", "+200 m", "iteration"));
  EXPECT_EQ(std::ranges::count(words, "+200 m"), 1);
}

// An SGD with weight decay: g = w.grad + w; m = g, which is made only then; w -= m. A frozen layer's state is there
// too.
TEST(RunTraining, SgdMakesItsMomentumBehindTheDecayedGradient) {
  const auto words = [](const std::string& state) {
    StepMaker step;
    const TensorId w = step.Persistent(StorageKind::kParameter, "w", 100);
    const TensorId m = step.Persistent(StorageKind::kOptimizerState, state + ".w", 200);
    step.Persistent(StorageKind::kOptimizerState, state + ".frozen", 30);
    const TensorId grad = step.CallOne("relu_backward", Phase::kBackward, {w}, 100);
    step.MarkGradient(grad, "w.grad");
    const TensorId decayed = step.CallOne("_foreach_add", Phase::kUpdate, {grad, w}, 50);
    step.CallOne("_foreach_add_", Phase::kUpdate, {m, decayed}, 0);
    Strings words = Words(step.graph, {.iterations = 2});
    std::erase_if(words, [](const std::string& word) { return word.ends_with(" _foreach_add_"); });
    return words;
  };
  EXPECT_THAT(words("momentum_buffer"),
              ElementsAre("+100 w", "iteration", "+100 w.grad", "+50 _foreach_add", "+200 momentum_buffer.w",
                          "-50 _foreach_add", "+30 momentum_buffer.frozen",  //
                          "iteration", "-100 w.grad", "+100 w.grad", "+50 _foreach_add", "-50 _foreach_add"));
  EXPECT_THAT(words("exp_avg"),
              ElementsAre("+100 w", "iteration", "+100 w.grad", "+200 exp_avg.w", "+30 exp_avg.frozen",
                          "+50 _foreach_add", "-50 _foreach_add",  //
                          "iteration", "-100 w.grad", "+100 w.grad", "+50 _foreach_add", "-50 _foreach_add"));
}

TEST(RunTraining, WhatTheModelReturnsStaysUntilTheNextIsThere) {
  StepMaker step;
  const TensorId x = step.Persistent(StorageKind::kInput, "x", 10);
  const TensorId hidden = step.CallOne("relu", Phase::kForward, {x}, 20, "first");
  const TensorId scores = step.CallOne("gelu", Phase::kForward, {hidden}, 30, "second");
  step.CallOne("loss", Phase::kForward, {scores}, 4);
  EXPECT_THAT(
      Words(step.graph, {.iterations = 2}),
      ElementsAre("iteration", "+10 x", "+20 relu", "+30 gelu", "-20 relu", "+4 loss", "-4 loss",  //
                  "iteration", "+10 x", "-10 x", "+20 relu", "+30 gelu", "-30 gelu", "-20 relu", "+4 loss", "-4 loss"));
}

TEST(RunTraining, ABatchIsReplacedAsAWhole) {
  StepMaker step;
  step.Persistent(StorageKind::kInput, "x", 10);
  step.Persistent(StorageKind::kInput, "y", 5);
  EXPECT_THAT(Words(step.graph, {.iterations = 2}),
              ElementsAre("iteration", "+10 x", "+5 y", "iteration", "+10 x", "+5 y", "-10 x", "-5 y"));
}

TEST(RunTraining, AMatrixProductTakesItsWorkspaceBehindItsResult) {
  StepMaker step;
  const TensorId x = step.Persistent(StorageKind::kInput, "x", 10);
  step.CallOne("mm", Phase::kForward, {x}, 20);
  // PyTorch's default before Hopper, :4096:2:16:8: 2 x 4096 KiB + 8 x 16 KiB = 8519680 B.
  EXPECT_THAT(Words(step.graph, {.iterations = 1}),
              ElementsAre("iteration", "+10 x", "+20 mm", "+8519680 scratch", "-8519680 scratch", "-20 mm"));
  EXPECT_THAT(Words(step.graph, {.iterations = 2, .blas_workspace = BlasWorkspacePolicy::kKept}),
              ElementsAre("iteration", "+10 x", "+8519680 scratch", "+20 mm", "-20 mm",  //
                          "iteration", "+10 x", "-10 x", "+20 mm", "-20 mm"));
  EXPECT_THAT(Words(step.graph, {.iterations = 1, .blas_workspace = BlasWorkspacePolicy::kNone}),
              ElementsAre("iteration", "+10 x", "+20 mm", "-20 mm"));
}

// y = conv(x, w); z = conv(y, w), the same to cuDNN; dy, dw = backward of the second. Images of 2 x 32 x 16 x 16
// float32, 65536 B; filters of 32 x 32 x 3 x 3, 36864 B.
TEST(RunTraining, EnginesAreTriedOutOnceForEachConvolution) {
  StepMaker step;
  const auto shaped = [&](TensorId id, Dims shape) {
    Tensor& tensor = step.graph.tensors[id.index()];
    tensor.dtype = DType::kFloat32;
    tensor.stride = {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
    tensor.shape = std::move(shape);
    return id;
  };
  const Dims image{2, 32, 16, 16}, filter{32, 32, 3, 3};
  const TensorId x = shaped(step.Persistent(StorageKind::kInput, "x", 65536), image);
  const TensorId w = shaped(step.Persistent(StorageKind::kParameter, "w", 36864), filter);
  const TensorId y = shaped(step.CallOne("convolution", Phase::kForward, {x, w}, 65536), image);
  step.graph.ops.back().arguments = {{"input", x}, {"weight", w}};
  const TensorId z = shaped(step.CallOne("convolution", Phase::kForward, {y, w}, 65536), image);
  step.graph.ops.back().arguments = {{"input", y}, {"weight", w}};
  const auto made = step.Call("convolution_backward", Phase::kBackward, {z, y, w}, {65536, 36864});
  shaped(made[0], image);
  shaped(made[1], filter);
  step.graph.ops.back().arguments = {{"grad_output", z}, {"input", y}, {"weight", w}};
  const auto words = [&](bool benchmark) {
    Strings words = Words(step.graph, {.iterations = 2, .cudnn_benchmark = benchmark});
    std::erase_if(words, [](const std::string& word) { return word.ends_with(" scratch") || word == "try"; });
    return words;
  };
  EXPECT_EQ(std::ranges::count(words(false), "empty"), 0);
  EXPECT_THAT(words(true),
              ElementsAre("+36864 w", "iteration", "+65536 x", "+65536 convolution", "empty",  // forward, the first
                          "+65536 convolution",                                                // the second is known
                          "+65536 convolution_backward", "empty",                              // the data's gradient
                          "+36864 convolution_backward", "empty",                              // the filter's
                          "-65536 convolution", "-65536 convolution", "-65536 convolution_backward",
                          "-36864 convolution_backward",  //
                          "iteration", "+65536 x", "-65536 x", "+65536 convolution", "+65536 convolution",
                          "+65536 convolution_backward", "+36864 convolution_backward", "-65536 convolution",
                          "-65536 convolution", "-65536 convolution_backward", "-36864 convolution_backward"));
}

TEST(RunTraining, DropoutMakesItsMaskFirst) {
  StepMaker step;
  const TensorId x = step.Persistent(StorageKind::kInput, "x", 40);
  step.Call("native_dropout", Phase::kForward, {x}, {40, 10});
  EXPECT_THAT(Words(step.graph, {.iterations = 1}),
              ElementsAre("iteration", "+40 x", "+10 native_dropout", "+40 native_dropout", "-40 native_dropout",
                          "-10 native_dropout"));
}

// Two weights of an LSTM: they come one by one, move into one block, and have one block of gradients.
TEST(RunTraining, RecurrentWeightsShareABlock) {
  StepMaker step;
  const TensorId w0 = step.Persistent(StorageKind::kParameter, "lstm.w0", 100);
  const TensorId w1 = step.Persistent(StorageKind::kParameter, "lstm.w1", 60);
  step.Call("_cudnn_rnn", Phase::kForward, {w0, w1}, {1, 2, 3, 4, 160});
  step.graph.ops.back().arguments = {{"weight", TensorList{{w0, w1}}}};
  const auto grads = step.Call("_cudnn_rnn_backward", Phase::kBackward, {w0, w1}, {100, 60});
  step.MarkGradient(grads[0], "g0");
  step.MarkGradient(grads[1], "g1");
  const Strings words = Words(step.graph, {.iterations = 2});
  EXPECT_THAT(Strings(words.begin(), words.begin() + 6),
              ElementsAre("+100 lstm.w0", "+60 lstm.w1", "+160 lstm.w0", "-100 lstm.w0", "-60 lstm.w1", "iteration"));
  EXPECT_EQ(std::ranges::count(words, "+160 g0"), 2);  // one for each iteration
  EXPECT_EQ(std::ranges::count(words, "-160 g0"), 1);
  EXPECT_EQ(std::ranges::count(words, "+60 g1"), 0);
  EXPECT_EQ(std::ranges::count(words, "+160 _cudnn_rnn"), 0);  // the fifth result is the weights' own block
}

TEST(RunTraining, NothingIsAskedForWhereMemoryHasRunOut) {
  const TrainingGraph graph = OneLayer();
  const Strings all = Words(graph, {.iterations = 2});
  for (std::int64_t granted = 0; granted < 12; ++granted) {
    Recorder recorder(graph);
    recorder.most = granted;
    RunTraining(graph, *FindProfile("a100-80gb"), {.iterations = 2}, recorder);
    ASSERT_LT(recorder.words.size(), all.size());
    EXPECT_TRUE(std::equal(recorder.words.begin(), recorder.words.end(), all.begin()));
    EXPECT_TRUE(all[recorder.words.size()].starts_with("+"));
  }
}

TEST(ModelOrder, ChildrenComeFirstThenParametersThenBuffers) {
  StepMaker step;
  const std::pair<StorageKind, const char*> members[] = {{StorageKind::kBuffer, "block.norm.mean"},
                                                         {StorageKind::kParameter, "block.scale"},
                                                         {StorageKind::kParameter, "block.fc.weight"},
                                                         {StorageKind::kParameter, "block.norm.weight"},
                                                         {StorageKind::kParameter, "head"},
                                                         {StorageKind::kParameter, "block.fc.bias"}};
  for (const auto& [kind, name] : members) step.Persistent(kind, name, 1);
  Strings names;
  for (const StorageId id : ModelOrder(step.graph)) names.push_back(step.graph.storage(id).name);
  EXPECT_THAT(names, ElementsAre("block.norm.weight", "block.norm.mean", "block.fc.weight", "block.fc.bias",
                                 "block.scale", "head"));
}

// a is made outside of `body`, which reads it in its first op only; b is made and read within it.
TEST(HoldArguments, UntilTheCallReturns) {
  StepMaker step;
  const TensorId x = step.Persistent(StorageKind::kInput, "x", 1);
  const TensorId a = step.CallOne("a", Phase::kForward, {x}, 1, "stem");
  const TensorId b = step.CallOne("b", Phase::kForward, {a}, 1, "body.0");
  const TensorId c = step.CallOne("c", Phase::kForward, {b}, 1, "body.1.conv");
  const TensorId d = step.CallOne("d", Phase::kForward, {c}, 1, "body.1");
  const TensorId e = step.CallOne("e", Phase::kForward, {d}, 1, "bodywork");
  step.CallOne("f", Phase::kForward, {e}, 1, "");
  std::vector<Lifetime> lifetimes = ComputeLiveness(step.graph);
  HoldArguments(step.graph, lifetimes);
  const auto end = [&](TensorId id) { return lifetimes[step.graph.tensor(id).storage.index()].end; };
  EXPECT_EQ(end(a), OpId(4));  // body: the ops 1, 2 and 3
  EXPECT_EQ(end(b), OpId(4));  // an argument of body.1, whose ops are 2 and 3
  EXPECT_EQ(end(c), OpId(4));
  EXPECT_EQ(end(d), OpId(5));
  EXPECT_EQ(end(e), OpId(6));
}

TEST(HoldArguments, EmbeddingsUntilTheirModelReturns) {
  StepMaker step;
  const TensorId tokens = step.Persistent(StorageKind::kInput, "tokens", 1);
  const TensorId words = step.CallOne("embedding", Phase::kForward, {tokens}, 1, "gpt.wte");
  const TensorId places = step.CallOne("embedding", Phase::kForward, {tokens}, 1, "gpt.wpe");
  const TensorId sum = step.CallOne("add", Phase::kForward, {words, places}, 1, "gpt");
  const TensorId normal = step.CallOne("norm", Phase::kForward, {sum}, 1, "gpt.norm");
  step.CallOne("mm", Phase::kForward, {normal}, 1, "head");
  std::vector<Lifetime> lifetimes = ComputeLiveness(step.graph);
  HoldArguments(step.graph, lifetimes);
  const auto end = [&](TensorId id) { return lifetimes[step.graph.tensor(id).storage.index()].end; };
  EXPECT_EQ(end(words), OpId(4));  // gpt: the ops 0 to 3
  EXPECT_EQ(end(places), OpId(4));
  EXPECT_EQ(end(sum), OpId(4));  // its last use
}

}  // namespace
}  // namespace ebbtide::estimate
