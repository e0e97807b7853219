// Every law of graph/check.h, broken once, and the message that names the offender.
#include "graph/check.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <limits>

#include "tests/graph/random_graph.h"
#include "tests/graph/tiny_graph.h"

namespace ebbtide {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

// The complaint about the documented example after a change to it.
std::string After(const std::function<void(TrainingGraph&)>& change) {
  TrainingGraph graph = TinyGraph();
  change(graph);
  const Status status = Check(graph);
  return status ? "valid" : status.error().message;
}

std::vector<TensorId> Ids(std::initializer_list<std::size_t> numbers) {
  return std::vector<TensorId>(numbers.begin(), numbers.end());
}

TEST(Check, TheExampleIsValid) {
  EXPECT_EQ(After([](TrainingGraph&) {}), "valid");
}

RC_GTEST_PROP(Check, RandomGraphsAreValid, (std::uint64_t seed)) {
  const Status status = Check(RandomGraph(seed, {.ops = *rc::gen::inRange(0, 60)}));
  if (!status) RC_FAIL(status.error().message);
}

TEST(CheckIds, OfTensorsThatDoNotExist) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[1].inputs[1] = TensorId(9); }),
            "ops[1] (mm, fc): inputs[1]: expected a tensor number below 9, found 9");
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[2].outputs[0] = TensorId(); }),
            "ops[2] (sum): outputs[0]: expected a tensor number below 9, found -1");
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[6].mutated[0] = TensorId(100); }),
            "ops[6] (sub_): mutated[0]: expected a tensor number below 9, found 100");
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.outputs = Ids({4, 9});
            }),
            "outputs[1]: expected a tensor number below 9, found 9");
}

TEST(CheckIds, OfStoragesAndOpsThatDoNotExist) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.tensors[0].storage = StorageId(6); }),
            "tensors[0] (fc.weight): expected a storage number below 6, found 6");
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[2].released_after = OpId(8); }),
            "storages[2] (activation): released_after: expected an op number below 8, found 8");
}

TEST(CheckSizes, ThatAreNegative) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[5].bytes = -1; }),
            "storages[5] (gradient, fc.weight.grad): bytes: expected 0 or more, found -1");
  EXPECT_EQ(After([](TrainingGraph& g) { g.tensors[3].shape[1] = -4; }),
            "tensors[3]: shape[1]: expected 0 or more, found -4");
  EXPECT_EQ(After([](TrainingGraph& g) { g.tensors[3].stride[0] = -4; }),
            "tensors[3]: stride[0]: expected 0 or more, found -4");
  EXPECT_EQ(After([](TrainingGraph& g) { g.tensors[3].offset = -1; }),
            "tensors[3]: offset: expected 0 or more, found -1");
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[1].flops = -1; }),
            "ops[1] (mm, fc): flops: expected 0 or more, found -1");
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[1].time = -2; }),
            "ops[1] (mm, fc): time_ns: expected 0 or more, found -2");
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[1].workspace = -3; }),
            "ops[1] (mm, fc): workspace: expected 0 or more, found -3");
}

TEST(CheckSizes, ThatOverflow) {
  // 2^62 elements of 4 bytes.
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.tensors[6].shape = {std::int64_t{1} << 31, std::int64_t{1} << 31};
            }),
            "tensors[6]: shape: its bytes exceed 64 bits");
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.tensors[6].shape = {kMax, kMax};
            }),
            "tensors[6]: shape: its bytes exceed 64 bits");
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.tensors[3].stride = {kMax / 2, kMax};
            }),
            "tensors[3]: its place in the storage exceeds 64 bits");
  EXPECT_EQ(After([](TrainingGraph& g) { g.tensors[3].offset = kMax; }),
            "tensors[3]: its place in the storage exceeds 64 bits");
  // 48 bytes come before.
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[1].bytes = kMax - 47; }),
            "storages[1] (input, batch.0): bytes: the sum up to here exceeds 64 bits");
  // All storages together have 160 bytes.
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[4].workspace = kMax - 159; }),
            "ops[4] (expand): workspace: the sum up to here exceeds 64 bits");
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[4].workspace = kMax - 160; }), "valid");
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[5].flops = kMax - 47; }),
            "ops[5] (mm, fc): flops: the sum up to here exceeds 64 bits");
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[0].time = kMax; }),
            "ops[7] (zero_): time_ns: the sum up to here exceeds 64 bits");
}

TEST(CheckTensor, LiesWithinItsStorage) {
  // Offset 1, then 2 rows of 4: 9 elements of 4 bytes.
  EXPECT_EQ(After([](TrainingGraph& g) { g.tensors[3].offset = 1; }),
            "tensors[3]: reaches to byte 36, but storages[2] (activation) has 32");
  // Last element: 0 + 1 * 5 + 3 * 1 = 8, so 9 elements.
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.tensors[3].stride = {5, 1};
            }),
            "tensors[3]: reaches to byte 36, but storages[2] (activation) has 32");
  EXPECT_EQ(After([](TrainingGraph& g) { g.tensors[3].dtype = DType::kFloat64; }),
            "tensors[3]: reaches to byte 64, but storages[2] (activation) has 32");
  EXPECT_EQ(After([](TrainingGraph& g) { g.tensors[3].stride = {3, 1}; }), "valid");
}

TEST(CheckTensor, WithoutElementsLiesNowhere) {
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.tensors[3].shape = {0, kMax};
              g.tensors[3].stride = {kMax, kMax};
              g.tensors[3].offset = kMax;
            }),
            "valid");
}

TEST(CheckTensor, HasAStridePerDimension) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.tensors[3].stride = {1}; }),
            "tensors[3]: expected as many strides as dimensions, found 1 and 2");
}

TEST(CheckOrder, NamesTheOpsOfACycle) {
  // sum (ops[2]) feeds ones_like (ops[3]) feeds expand (ops[4]), which now feeds sum.
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[2].inputs.push_back(TensorId(6)); }),
            "cycle of 3 ops: ops[2] (sum) needs ops[4] (expand), which needs ops[3] (ones_like), which needs "
            "ops[2] (sum)");
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[2].inputs.push_back(TensorId(4)); }),
            "cycle of 1 op: ops[2] (sum) needs ops[2] (sum)");
}

TEST(CheckOrder, ACycleComesBeforeAnOpThatIsMerelyTooEarly) {
  // ops[0] reads what ops[3] yields without a cycle; further on expand and mm feed each other.
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.ops[0].inputs.push_back(TensorId(5));
              g.ops[3].inputs.clear();
              g.ops[4].inputs.push_back(TensorId(7));
            }),
            "cycle of 2 ops: ops[4] (expand) needs ops[5] (mm, fc), which needs ops[4] (expand)");
}

TEST(CheckOrder, ACycleOfManyOpsIsCutShort) {
  const std::string message = After([](TrainingGraph& g) {
    g = {};
    constexpr std::size_t kOps = 100'000;
    g.storages.resize(kOps);
    g.tensors.resize(kOps);
    g.ops.resize(kOps);
    for (std::size_t i = 0; i < kOps; ++i) {
      g.tensors[i].storage = StorageId(i);
      g.tensors[i].shape = {0};
      g.tensors[i].stride = {1};
      g.ops[i].kind = "add";
      g.ops[i].inputs = {TensorId((i + kOps - 1) % kOps)};
      g.ops[i].outputs = {TensorId(i)};
    }
  });
  EXPECT_EQ(message,
            "cycle of 100000 ops: ops[0] (add) needs ops[99999] (add), which needs ops[99998] (add), which needs "
            "ops[99997] (add), which needs ops[99996] (add), which needs ops[99995] (add), ... (99994 more), which "
            "needs ops[0] (add)");
}

TEST(CheckOrder, OpsStandInExecutionOrder) {
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.ops[0].inputs.push_back(TensorId(5));
              g.ops[3].inputs.clear();
            }),
            "ops[0] (t, fc): inputs[1]: tensor 5 is yielded only later, by ops[3] (ones_like); ops stand in execution "
            "order");
}

TEST(CheckOrder, WhatIsReadExists) {
  EXPECT_EQ(
      After([](TrainingGraph& g) { g.ops[1].outputs.clear(); }),
      "ops[2] (sum): inputs[0]: no op yields tensor 3, and storages[2] (activation) does not exist before the step");
  // A view of a parameter that no op yields exists with it.
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[0].outputs.clear(); }), "valid");
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.ops[1].outputs.clear();
              g.ops[2].inputs.clear();
              g.ops[2].arguments.clear();
              g.outputs = Ids({3});
            }),
            "outputs[0]: no op yields tensor 3, and storages[2] (activation) does not exist before the step");
}

TEST(CheckProduction, OfATensorTwice) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[5].outputs.push_back(TensorId(3)); }),
            "ops[5] (mm, fc): yields tensor 3, which ops[1] (mm, fc) already yields");
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.ops[2].outputs = Ids({4, 4});
            }),
            "ops[2] (sum): yields tensor 4, which ops[2] (sum) already yields");
}

TEST(CheckProduction, OfAStorageTwice) {
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.tensors.push_back(g.tensors[3]);
              g.ops[5].outputs.push_back(TensorId(9));
            }),
            "ops[5] (mm, fc): yields a tensor of storages[2] (activation), which ops[1] (mm, fc) already produces, "
            "without reading one");
  EXPECT_EQ(
      After([](TrainingGraph& g) {
        g.ops[6].inputs = Ids({7});
        g.ops[6].mutated.clear();
        g.ops[6].arguments.clear();
      }),
      "ops[6] (sub_): yields a tensor of storages[0] (parameter, fc.weight), which exists before the step, without "
      "reading one");
}

TEST(CheckProduction, OfEveryStorageThatIsNotPersistent) {
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.storages.push_back({8, StorageKind::kTemporary, "mask", {}});
            }),
            "storages[6] (temporary, mask): no op produces it");
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages.push_back({8, StorageKind::kBuffer, "unused", {}}); }), "valid");
}

TEST(CheckProduction, TwoTensorsOfOneNewStorage) {
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.tensors.push_back(g.tensors[3]);
              g.ops[1].outputs.push_back(TensorId(9));
            }),
            "valid");
}

TEST(CheckMutation, OfInputsOnly) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[6].mutated = Ids({3}); }),
            "ops[6] (sub_): mutates tensor 3, which is not among its inputs");
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.ops[6].mutated = Ids({0, 0});
            }),
            "ops[6] (sub_): lists tensor 0 twice in mutated");
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.ops[6].inputs = Ids({0, 7, 0});
            }),
            "ops[6] (sub_): lists tensor 0 twice in inputs");
}

TEST(CheckRelease, NothingTouchesAStorageAfterwards) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[2].released_after = OpId(1); }),
            "ops[2] (sum): touches storages[2] (activation), which is released after ops[1] (mm, fc)");
  // Mutation by zero_ (ops[7]) after the release.
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[5].released_after = OpId(6); }),
            "ops[7] (zero_): touches storages[5] (gradient, fc.weight.grad), which is released after ops[6] (sub_)");
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[2].released_after = OpId(0); }),
            "ops[1] (mm, fc): touches storages[2] (activation), which is released after ops[0] (t, fc)");
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[2].released_after = OpId(2); }), "valid");
}

TEST(CheckOutside, OnlyWhatIsThereBefore) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[0].outside = true; }), "valid");
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[2].outside = true; }),
            "storages[2] (activation): outside: expected false, since the step makes it");
}

TEST(CheckRelease, NotOfWhatOutlivesTheStep) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[0].released_after = OpId(7); }),
            "storages[0] (parameter, fc.weight): released_after: expected none, since it outlives the step");
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[3].released_after = OpId(7); }),
            "outputs[0]: storages[3] (activation, loss) is an output of the graph, yet has a released_after");
}

TEST(CheckArguments, NameTensorsOfTheOp) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[1].arguments[0].value = TensorId(0); }),
            "ops[1] (mm, fc): argument \"self\": tensor 0 is neither among the inputs nor the outputs");
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[1].arguments[0].value = TensorId(); }),
            "ops[1] (mm, fc): argument \"self\": expected a tensor number below 9, found -1");
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.ops[1].arguments[0].value = TensorList{Ids({1, 9})};
            }),
            "ops[1] (mm, fc): argument \"self\": expected a tensor number below 9, found 9");
  // None in a list, and an output.
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.ops[1].arguments[0].value = TensorList{{TensorId(), TensorId(3)}};
            }),
            "valid");
}

TEST(CheckArguments, NameScalarsThatExist) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[6].arguments[2].value = ScalarId(1); }),
            "ops[6] (sub_): argument \"alpha\": expected a scalar number below 1, found 1");
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.ops[6].arguments[2].value = ScalarList{{ScalarId(0), ScalarId()}};
            }),
            "ops[6] (sub_): argument \"alpha\": expected a scalar number below 1, found -1");
}

TEST(CheckArguments, HaveDistinctNames) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[1].arguments[1].name = "self"; }),
            "ops[1] (mm, fc): argument \"self\" appears twice");
  EXPECT_EQ(After([](TrainingGraph& g) {
              for (int i = 0; i < 100; ++i) g.ops[1].arguments.push_back({"a" + std::to_string(i), true});
              g.ops[1].arguments.push_back({"a50", true});
            }),
            "ops[1] (mm, fc): argument \"a50\" appears twice");
}

TEST(CheckArguments, AreNotThousands) {
  const auto with = [](int count) {
    return After([count](TrainingGraph& g) {
      for (int i = 2; i < count; ++i) g.ops[1].arguments.push_back({std::to_string(i), true});
    });
  };
  EXPECT_EQ(with(1000), "valid");
  EXPECT_EQ(with(1001), "ops[1] (mm, fc): expected at most 1000 arguments, found 1001");
}

TEST(CheckArguments, NamedValuesAreOfAKnownType) {
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.ops[2].arguments[1].value = Named{"generator", "cpu"};
            }),
            "ops[2] (sum): argument \"dtype\": expected a dtype, device, layout or memory_format, found \"generator\"");
}

TEST(CheckText, IsUtf8) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[1].layer = "fc\xFF"; }),
            "ops[1] (mm, \"fc?\"): layer: expected UTF-8, found \"fc?\"");
  EXPECT_EQ(After([](TrainingGraph& g) { g.storages[0].name = "\xC3"; }),
            "storages[0] (parameter, \"?\"): name: expected UTF-8, found \"?\"");
  EXPECT_EQ(After([](TrainingGraph& g) { g.tensors[0].name = "\xED\xA0\x80"; }),
            "tensors[0] (\"???\"): name: expected UTF-8, found \"???\"");
  EXPECT_EQ(After([](TrainingGraph& g) { g.scalars[0].name = "\x80"; }),
            "scalars[0].name: expected UTF-8, found \"?\"");
  EXPECT_EQ(After([](TrainingGraph& g) { g.meta["a"] = "\x80"; }), "meta: expected UTF-8, found \"?\"");
  EXPECT_EQ(After([](TrainingGraph& g) { g.name = "\x80"; }), "name: expected UTF-8, found \"?\"");
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[1].arguments[0].name = "\x80"; }),
            "ops[1] (mm, fc): argument \"?\": name: expected UTF-8, found \"?\"");
  EXPECT_EQ(After([](TrainingGraph& g) {
              g.ops[2].arguments[1].value = Named{"dtype", "\x80"};
            }),
            "ops[2] (sum): argument \"dtype\": value: expected UTF-8, found \"?\"");
}

TEST(CheckText, MessagesStayOnOneShortLine) {
  const std::string message = After([](TrainingGraph& g) {
    g.ops[1].kind = "two\nlines";
    g.ops[1].layer = std::string(1'000'000, 'x');
    g.ops[1].flops = -1;
  });
  EXPECT_EQ(message,
            "ops[1] (\"two\\nlines\", \"" + std::string(60, 'x') + "...\"): flops: expected 0 or more, found -1");
}

TEST(CheckText, EveryOpHasAKind) {
  EXPECT_EQ(After([](TrainingGraph& g) { g.ops[1].kind.clear(); }), "ops[1] (fc): kind: expected a name, found none");
}

}  // namespace
}  // namespace ebbtide
