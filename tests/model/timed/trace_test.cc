// Traces with times become graphs whose sum of times and peak are those that the traces state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "graph/check.h"
#include "graph/json.h"
#include "graph/liveness.h"
#include "model/timed/timed.h"
#include "tests/support/folders.h"

namespace ebbtide::model::timed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A weight (0), an input (1), y = w x (2), a view of it, z = relu_(y) (3); backward: gz (4), gw (5, kept).
constexpr const char* kSmall = R"({"source": "by hand", "device": "none",
  "ops": [
    {"name": "mm", "time_ns": 100, "bwd": false, "in": [0, 1], "out": [2]},
    {"name": "view", "time_ns": 1, "bwd": false, "in": [2], "out": []},
    {"name": "relu_", "time_ns": 20, "bwd": false, "in": [2], "out": [3]},
    {"name": "ones_like", "time_ns": 5, "bwd": true, "in": [3], "out": [4]},
    {"name": "mm", "time_ns": 200, "bwd": true, "in": [1, 4], "out": [5]}
  ],
  "storages": [{"bytes": 1000, "const": true}, {"bytes": 500, "const": true}, {"bytes": 64, "const": false},
               {"bytes": 32, "const": false}, {"bytes": 16, "const": false}, {"bytes": 7, "const": false}],
  "free": [[], [], [], [2, 3], [1, 4]],
  "total_time_ns": 326, "peak_bytes_store_all": 1612})";

TEST(TimedTrace, SmallOneByHand) {
  ASSERT_TRUE(IsTimedTrace(kSmall));
  const auto graph = ParseTrace(kSmall, "small");
  ASSERT_TRUE(graph) << graph.error().message;
  ASSERT_EQ(graph->ops.size(), 5u);
  std::vector<Nanos> times;
  for (const Op& op : graph->ops) times.push_back(op.time);
  EXPECT_THAT(times, ElementsAre(100, 1, 20, 5, 200));

  // A constant that the trace drops was handed in; what backward leaves behind is a gradient.
  EXPECT_EQ(graph->storages[0].kind, StorageKind::kParameter);
  EXPECT_EQ(graph->storages[1].kind, StorageKind::kInput);
  EXPECT_EQ(graph->storages[2].kind, StorageKind::kActivation);
  EXPECT_EQ(graph->storages[4].kind, StorageKind::kTemporary);
  EXPECT_EQ(graph->storages[5].kind, StorageKind::kGradient);

  // The view is of its input's storage; relu_ makes a storage of its own, and so changes nothing.
  ASSERT_EQ(graph->ops[1].outputs.size(), 1u);
  EXPECT_EQ(graph->tensor(graph->ops[1].outputs[0]).storage, StorageId(2));
  EXPECT_EQ(graph->ops[2].kind, "relu");
  EXPECT_TRUE(graph->ops[2].mutated.empty());

  // y lives to op 3, one past its last use, as the trace has it; gw lives on.
  const auto lifetimes = ComputeLiveness(*graph);
  EXPECT_EQ(lifetimes[2].end, OpId(4));
  EXPECT_TRUE(lifetimes[5].outlives_step);
  // Most during op 3: 1000 + 500 + 64 + 32 + 16.
  EXPECT_EQ(PeakLiveBytes(*graph, lifetimes), (Peak{.bytes = 1612, .at = OpId(3)}));
}

TEST(TimedTrace, AnOpThatMakesWhatItWasGivenChangesIt) {
  const auto graph = ParseTrace(R"({"ops": [{"name": "add_", "time_ns": 3, "in": [0], "out": [0]},
                                            {"name": "neg", "time_ns": 4, "in": [0], "out": [1]}],
                                    "storages": [{"bytes": 8, "const": true}, {"bytes": 8}]})",
                                "x");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->ops[0].kind, "add_");
  EXPECT_EQ(graph->ops[0].mutated, graph->ops[0].inputs);
  EXPECT_EQ(graph->ops[1].inputs, graph->ops[0].outputs);
}

std::string Complaint(const std::string& text) {
  const auto graph = ParseTrace(text, "bad");
  if (graph) return "valid";
  const std::string message = graph.error().message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message.substr(0, message.find(" (line "));
}

std::string Ops(const std::string& ops, const std::string& free = "") {
  return R"({"ops": [)" + ops + R"(], "storages": [{"bytes": 4, "const": true}, {"bytes": 4}])" +
         (free.empty() ? "" : ", \"free\": " + free) + "}";
}

TEST(TimedTrace, BadOnesNameThePlace) {
  EXPECT_EQ(Complaint(Ops(R"({"name": "a", "time_ns": 1, "in": [0], "out": [1]})", "[[1]]")), "valid");
  EXPECT_EQ(Complaint("[]"), "bad: expected an object, found a list");
  EXPECT_THAT(Complaint(R"({"ops": []})"), HasSubstr("storages"));
  EXPECT_EQ(Complaint(Ops(R"({"name": "a", "time_ns": -1, "in": [0], "out": [1]})")),
            "bad: ops[0].time_ns: expected a whole number of nanoseconds, found -1");
  EXPECT_THAT(Complaint(Ops(R"({"name": "a", "time_ns": 1.5, "in": [0], "out": [1]})")), HasSubstr("ops[0].time_ns"));
  EXPECT_THAT(Complaint(Ops(R"({"name": "a", "time_ns": NaN, "in": [0], "out": [1]})")), HasSubstr("ops[0].time_ns"));
  EXPECT_EQ(Complaint(Ops(R"({"name": "a", "time_ns": 1, "in": [7], "out": [1]})")),
            "bad: ops[0].in[0]: expected the number of a storage below 2, found 7");
  EXPECT_EQ(Complaint(Ops(R"({"name": "a", "time_ns": 1, "in": [0, 0], "out": [1]})")),
            "bad: ops[0].in[1]: storage 0 appears twice in its list");
  EXPECT_EQ(Complaint(Ops(R"({"name": "a", "time_ns": 1, "in": [1], "out": [1]})")),
            "bad: ops[0].in[0]: storage 1 is read here, and neither const nor made by an op before");
  EXPECT_EQ(Complaint(Ops(R"({"name": "a", "time_ns": 1, "in": [0], "out": [1]})", "[]")),
            "bad: free: expected a list for each of the 1 ops, found 0");
  EXPECT_EQ(Complaint(Ops(R"({"name": "a", "time_ns": 1, "in": [0], "out": [1]})", "[[1, 1]]")),
            "bad: free[0][1]: storage 1 appears twice in its list");
  const std::string two =
      R"({"name": "a", "time_ns": 1, "in": [0], "out": [1]}, {"name": "b", "time_ns": 1, "in": [1], "out": []})";
  EXPECT_EQ(Complaint(Ops(two, "[[], [1]]")), "valid");
  EXPECT_EQ(Complaint(Ops(two, "[[1], [1]]")), "bad: free[1][0]: storage 1 is already free after op 0");
  EXPECT_THAT(Complaint(Ops(two, "[[1], []]")), HasSubstr("ops[1] (b): touches storages[1]"));
  EXPECT_THAT(Complaint(Ops(two + R"(, {"name": "a", "time_ns": 1, "in": [0], "out": [1]})")),
              HasSubstr("which ops[0] (a) already produces"));
  EXPECT_THAT(Complaint(Ops("")), HasSubstr("storages[1]"));
  EXPECT_THAT(Complaint(Ops(R"({"name": "", "time_ns": 1, "in": [0], "out": [1]})")), HasSubstr("kind"));
  const std::string most = "9223372036854775807";
  EXPECT_THAT(Complaint(Ops(R"({"name": "a", "time_ns": )" + most +
                            R"(, "in": [0], "out": [1]}, {"name": "b", "time_ns": 1})")),
              HasSubstr("exceeds 64 bits"));
}

TEST(TimedTrace, CutAtEveryByteIsOneLine) {
  const std::string text = kSmall;
  for (std::size_t length = 0; length < text.size(); ++length) {
    IsTimedTrace(text.substr(0, length));
    ASSERT_NE(Complaint(text.substr(0, length)), "valid") << length;
  }
}

TEST(TimedTrace, IsToldFromAGraph) {
  EXPECT_TRUE(IsTimedTrace(R"({"storages": [], "ops": []})"));
  EXPECT_FALSE(IsTimedTrace(R"({"format": "ebbtide.graph", "version": 1, "storages": [], "ops": []})"));
  EXPECT_FALSE(IsTimedTrace(R"({"source": {"ops": 1, "storages": 2}})"));
  EXPECT_FALSE(IsTimedTrace(R"({"source": "\"ops\": \"storages\":"})"));
  EXPECT_FALSE(IsTimedTrace("\"ops\\"));
}

// Every measured trace that is there: what it says of itself holds.
TEST(TimedTrace, MeasuredOnesMeetTheirOwnFigures) {
  const std::filesystem::path folder = DataFolder() / "graphs";
  if (!std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << folder << " is not there; EBBTIDE_DATA names the folder of the data";
  }
  int traces = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".json.gz")) continue;
    ++traces;
    const auto text = ReadFile(path, kGraphFileLimit);
    ASSERT_TRUE(text) << text.error().message;
    const auto stated = nlohmann::json::parse(*text);
    const auto graph = ParseTrace(*text, path);
    ASSERT_TRUE(graph) << graph.error().message;
    Nanos time = 0;
    for (const Op& op : graph->ops) time += op.time;
    EXPECT_EQ(time, stated["total_time_ns"].get<Nanos>()) << path;
    EXPECT_EQ(PeakLiveBytes(*graph, ComputeLiveness(*graph)).bytes, stated["peak_bytes_store_all"].get<Bytes>())
        << path;
  }
  EXPECT_EQ(traces, 4);
}

}  // namespace
}  // namespace ebbtide::model::timed
