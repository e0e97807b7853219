// The graph as values, and its text as it is read from docs/graph-format.md.
#include "tests/graph/tiny_graph.h"

#include <fstream>
#include <initializer_list>
#include <iterator>

#include "graph/shape.h"
#include "tests/support/folders.h"

namespace ebbtide {
namespace {

std::vector<TensorId> Ids(std::initializer_list<std::size_t> numbers) {
  std::vector<TensorId> ids;
  for (const std::size_t number : numbers) ids.emplace_back(number);
  return ids;
}

Tensor Float32(std::size_t storage, Dims shape, Dims stride = {}, std::string name = "") {
  if (stride.empty()) stride = *ContiguousStride(shape);
  return {
      .storage = StorageId(storage), .shape = std::move(shape), .stride = std::move(stride), .name = std::move(name)};
}

Op MakeOp(std::string kind, Phase phase, std::string layer, std::initializer_list<std::size_t> inputs,
          std::initializer_list<std::size_t> outputs) {
  Op op;
  op.kind = std::move(kind);
  op.phase = phase;
  op.layer = std::move(layer);
  op.inputs = Ids(inputs);
  op.outputs = Ids(outputs);
  return op;
}

}  // namespace

TrainingGraph TinyGraph() {
  using enum StorageKind;
  using enum Phase;
  TrainingGraph graph;
  graph.name = "tiny";
  graph.meta = {{"source", "by hand"}, {"device", "cpu"}, {"optimizer", "sgd"}};
  graph.scalars = {{"group0.lr", 0.1}};
  graph.storages = {{48, kParameter, "fc.weight", {}}, {24, kInput, "batch.0", {}},
                    {32, kActivation, "", OpId(7)},    {4, kActivation, "loss", {}},
                    {4, kTemporary, "", {}},           {48, kGradient, "fc.weight.grad", {}}};
  graph.tensors = {Float32(0, {4, 3}, {}, "fc.weight"),
                   Float32(1, {2, 3}, {}, "batch.0"),
                   Float32(0, {3, 4}, {1, 3}),
                   Float32(2, {2, 4}),
                   Float32(3, {}),
                   Float32(4, {}),
                   Float32(4, {4, 2}, {0, 0}),
                   Float32(5, {4, 3}),
                   Float32(0, {4, 3})};
  graph.ops = {MakeOp("t", kForward, "fc", {0}, {2}),     MakeOp("mm", kForward, "fc", {1, 2}, {3}),
               MakeOp("sum", kForward, "", {3}, {4}),     MakeOp("ones_like", kBackward, "", {4}, {5}),
               MakeOp("expand", kBackward, "", {5}, {6}), MakeOp("mm", kBackward, "fc", {6, 1}, {7}),
               MakeOp("sub_", kUpdate, "", {0, 7}, {8}),  MakeOp("zero_", kUpdate, "", {7}, {})};
  const auto call = [&](std::size_t op, std::string schema, std::vector<Argument> arguments) {
    graph.ops[op].schema = std::move(schema);
    graph.ops[op].arguments = std::move(arguments);
  };
  call(0, "aten::t.default", {{"self", TensorId(0)}});
  call(1, "aten::mm.default", {{"self", TensorId(1)}, {"mat2", TensorId(2)}});
  call(2, "aten::sum.default", {{"self", TensorId(3)}, {"dtype", std::monostate()}});
  call(4, "aten::expand.default", {{"self", TensorId(5)}, {"size", Dims{4, 2}}, {"implicit", false}});
  call(6, "aten::sub_.Tensor", {{"self", TensorId(0)}, {"other", TensorId(7)}, {"alpha", ScalarId(0)}});
  graph.ops[1].flops = 2 * 2 * 3 * 4;
  graph.ops[5].flops = 2 * 4 * 2 * 3;
  graph.ops[6].mutated = Ids({0});
  graph.ops[7].mutated = Ids({7});
  graph.ops[7].time = 900;
  graph.outputs = Ids({4});
  return graph;
}

std::string TinyGraphText() {
  std::ifstream file(SourceFolder() / "docs/graph-format.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string fence = "```json\n";
  const std::size_t begin = page.find(fence) + fence.size();
  return page.substr(begin, page.find("```\n", begin) - begin);
}

}  // namespace ebbtide
