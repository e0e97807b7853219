// `inspect` on a step small enough to do by hand.
#include "report/json/inspect.h"

#include <gtest/gtest.h>

#include <sstream>

#include "graph/check.h"
#include "report/text/inspect.h"
#include "report/text/text.h"

namespace ebbtide::report {
namespace {

StorageId AddStorage(TrainingGraph& graph, StorageKind kind, Bytes bytes, std::string name = "") {
  graph.storages.push_back({.bytes = bytes, .kind = kind, .name = std::move(name), .released_after = {}});
  return StorageId(graph.storages.size() - 1);
}

TensorId AddTensor(TrainingGraph& graph, StorageId storage, Dims shape) {
  Dims stride(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  Tensor& tensor = graph.tensors.emplace_back();
  tensor.storage = storage, tensor.shape = std::move(shape), tensor.stride = std::move(stride);
  return TensorId(graph.tensors.size() - 1);
}

// loss = relu(x w).sum(), x 4x3, w 3x2, float32; then w += gradient.
//   bytes: x 48, w 24, h 32, r 32, loss 4, g 32, gw 24; persistent x + w = 72
//   live:  mm 72+h = 104; relu 72+h+r = 136; sum 72+r+loss = 108; threshold_backward 72+r+loss+g = 140;
//          mm 72+loss+g+gw = 132; add_ 72+loss+gw = 100
TrainingGraph Tiny() {
  TrainingGraph graph;
  graph.name = "tiny";
  graph.meta = {{"source", "test"}, {"batch_size", "4"}};
  const TensorId x = AddTensor(graph, AddStorage(graph, StorageKind::kInput, 48, "x"), {4, 3});
  const StorageId weight = AddStorage(graph, StorageKind::kParameter, 24, "fc.weight");
  const TensorId w = AddTensor(graph, weight, {3, 2});
  const TensorId h = AddTensor(graph, AddStorage(graph, StorageKind::kActivation, 32), {4, 2});
  const TensorId r = AddTensor(graph, AddStorage(graph, StorageKind::kActivation, 32), {4, 2});
  const TensorId loss = AddTensor(graph, AddStorage(graph, StorageKind::kActivation, 4), {});
  const TensorId g = AddTensor(graph, AddStorage(graph, StorageKind::kTemporary, 32), {4, 2});
  const TensorId gw = AddTensor(graph, AddStorage(graph, StorageKind::kGradient, 24), {3, 2});
  const TensorId updated = AddTensor(graph, weight, {3, 2});
  const auto add = [&](const char* kind, Phase phase, const char* layer, std::vector<TensorId> inputs, TensorId output,
                       std::int64_t flops) -> Op& {
    Op op;
    op.kind = kind, op.phase = phase, op.layer = layer, op.inputs = std::move(inputs), op.outputs = {output};
    op.flops = flops;
    return graph.ops.emplace_back(std::move(op));
  };
  add("mm", Phase::kForward, "fc", {x, w}, h, 48);  // 2 * 4 * 3 * 2
  add("relu", Phase::kForward, "act", {h}, r, 0);
  add("sum", Phase::kForward, "", {r}, loss, 0);
  add("threshold_backward", Phase::kBackward, "act", {r}, g, 0);
  add("mm", Phase::kBackward, "fc", {x, g}, gw, 48);  // 2 * 3 * 4 * 2
  add("add_", Phase::kUpdate, "", {w, gw}, updated, 0).mutated = {w};
  graph.outputs = {loss};
  return graph;
}

jobs::InspectResult Inspect(const TrainingGraph& graph, const std::string& model) {
  jobs::InspectRequest request;
  request.model.model = model;
  request.model.graph = std::make_shared<const TrainingGraph>(graph);
  return jobs::Inspect(request, {}).value();
}

TEST(Inspect, CountsTheTinyStep) {
  const TrainingGraph graph = Tiny();
  const Status valid = Check(graph);
  ASSERT_TRUE(valid) << valid.error().message;
  const Json result = InspectJson(Inspect(graph, "tiny.json"));
  EXPECT_EQ(result["schema_version"], 1);
  EXPECT_EQ(result["command"], "inspect");
  EXPECT_EQ(result["model"], "tiny.json");
  EXPECT_EQ(result["parameters"], 6);
  EXPECT_EQ(result["forward_flops"], 48);
  EXPECT_EQ(result["saved_bytes"], 32);  // r; x is read in backward too, but no op made it
  EXPECT_EQ(result["saved_storages"], 1);
  EXPECT_EQ(result["persistent_bytes"], 48 + 24);
  EXPECT_EQ(result["peak_bytes"], 140);
  EXPECT_EQ(result["peak_at"],
            (Json{{"op", 3}, {"kind", "threshold_backward"}, {"phase", "backward"}, {"layer", "act"}}));
  EXPECT_EQ(result["ops"], 6);
  EXPECT_EQ(result["tensors"], 8);
  EXPECT_EQ(result["storages"], 7);
  EXPECT_EQ(result["live_bytes"], (Json{104, 136, 108, 140, 132, 100}));
  EXPECT_EQ(result["ops_by_phase"], (Json{{"forward", 3}, {"backward", 2}, {"update", 1}}));
  EXPECT_EQ(result["ops_by_kind"][0],
            (Json{{"kind", "mm"}, {"forward", 1}, {"backward", 1}, {"update", 0}, {"flops", 96}, {"time_ns", 0}}));
}

TEST(Inspect, DescribesTheLargestTensors) {
  const Json result = InspectJson(Inspect(Tiny(), "tiny"));
  ASSERT_EQ(result["largest_tensors"].size(), 7u);  // all that there are
  EXPECT_EQ(result["largest_tensors"][0], (Json{{"storage", 0},
                                                {"bytes", 48},
                                                {"kind", "input"},
                                                {"dtype", "float32"},
                                                {"shape", {4, 3}},
                                                {"name", "x"},
                                                {"made_by", ""},
                                                {"layer", ""},
                                                {"saved", false}}));
  EXPECT_EQ(result["largest_tensors"][2], (Json{{"storage", 3},
                                                {"bytes", 32},
                                                {"kind", "activation"},
                                                {"dtype", "float32"},
                                                {"shape", {4, 2}},
                                                {"name", ""},
                                                {"made_by", "relu"},
                                                {"layer", "act"},
                                                {"saved", true}}));
}

TEST(Inspect, TextNamesEveryFigure) {
  const std::string text = InspectText(Inspect(Tiny(), "tiny"), Terminal{.width = 120});
  for (const char* part : {"tiny  test, batch size 4\n", "parameters          6\n", "forward FLOPs       48\n",
                           "saved for backward  32 B in 1 storage\n",
                           "persistent          72 B: parameters 24 B, buffers 0 B, optimizer state 0 B, inputs 48 B\n",
                           "peak live           140 B at op 3 of 6: threshold_backward of act (backward)\n",
                           "step                6 ops (3 forward, 2 backward, 1 update) on 7 storages\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Inspect, TextKeepsToTheWidth) {
  TrainingGraph graph = Tiny();
  graph.name = std::string(30, 'n');
  graph.meta["note"] = std::string(300, 'm');
  graph.ops[0].layer = std::string(200, 'l');
  graph.storages[0].name = std::string(200, 's');
  for (const int width : {60, 80, 120}) {
    std::istringstream lines(InspectText(Inspect(graph, "tiny"), Terminal{.width = width}));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(Columns(line), width) << line;
  }
}

TEST(Inspect, NamesFromAFileCannotDisturbTheTerminal) {
  TrainingGraph graph = Tiny();
  graph.name = graph.ops[3].kind = graph.ops[3].layer = graph.meta["a\nb"] = graph.storages[0].name = "\x1b[2J\r\nx";
  const std::string text = InspectText(Inspect(graph, "tiny"), Terminal{});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Inspect, PlotMarksThePhasesUnderTheirOps) {
  // "140 B " leaves 54 of 60 columns: 9 for each of the 6 ops, of which 3 are forward, 2 backward and 1 update.
  const std::string text = InspectText(Inspect(Tiny(), "tiny"), Terminal{.unicode = false, .width = 60});
  EXPECT_NE(text.find("\n      |forward                   |backward         |update\n"), std::string::npos) << text;
}

TEST(Inspect, AGraphWithoutOpsHasNoPeakOp) {
  TrainingGraph graph;
  AddTensor(graph, AddStorage(graph, StorageKind::kParameter, 8, "w"), {2});
  const jobs::InspectResult inspection = Inspect(graph, "empty.json");
  const Json result = InspectJson(inspection);
  EXPECT_TRUE(result["peak_at"].is_null());
  EXPECT_EQ(result["peak_bytes"], 8);
  EXPECT_NE(InspectText(inspection, Terminal{}).find("peak live           8 B\n"), std::string::npos);
}

TEST(Inspect, PhasesThatAlternateHaveNoBoundaries) {
  TrainingGraph graph = Tiny();
  EXPECT_EQ(Inspect(graph, "").phase_begins, (std::vector<std::size_t>{0, 3, 5}));
  graph.ops[4].phase = Phase::kUpdate;
  graph.ops[5].phase = Phase::kBackward;
  EXPECT_TRUE(Inspect(graph, "").phase_begins.empty());
}

TEST(Print, SurvivesTextThatIsNotUtf8) { EXPECT_EQ(Print(Json{{"name", "a\xff"}}), "{\n  \"name\": \"a\uFFFD\"\n}\n"); }

}  // namespace
}  // namespace ebbtide::report
