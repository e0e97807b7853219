// The graph file: what is documented is what is read and written, and the round trip is exact both ways.
#include "graph/json.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/file.h"
#include "graph/check.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/tiny_graph.h"

namespace ebbtide {
namespace {

TEST(GraphJson, TheDocumentedExampleIsRead) {
  const auto graph = ParseGraph(TinyGraphText(), "docs/graph-format.md");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(*graph, TinyGraph());
}

TEST(GraphJson, TheDocumentedExampleIsWhatIsWritten) { EXPECT_EQ(ToJson(TinyGraph()), TinyGraphText()); }

TEST(GraphJson, AnEmptyGraphIsShort) {
  const std::string text = "{\n  \"format\": \"ebbtide.graph\", \"version\": 1\n}\n";
  EXPECT_EQ(ToJson(TrainingGraph()), text);
  EXPECT_EQ(ParseGraph(text, "empty"), TrainingGraph());
}

TEST(GraphJson, WhatLiesOutsideSaysSo) {
  TrainingGraph graph = TinyGraph();
  graph.storages[0].outside = true;
  const std::string text = ToJson(graph);
  EXPECT_NE(text.find(R"({"kind": "parameter", "bytes": 48, "name": "fc.weight", "outside": true})"), std::string::npos)
      << text;
  EXPECT_EQ(ParseGraph(text, "outside"), graph);
}

TEST(GraphJson, BlanksAndTheOrderOfKeysDoNotMatter) {
  const auto graph = ParseGraph(
      "\xEF\xBB\xBF "
      "\t\r\n{\"storages\":[{\"bytes\":1,\"kind\":\"input\"}],\"version\":1,\"format\":\"ebbtide.graph\"}\n ",
      "mixed");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->storages.size(), 1u);
}

TEST(GraphJson, FloatsKeepTheirPointAndIntegersHaveNone) {
  TrainingGraph graph;
  graph.ops.resize(1);
  graph.ops[0].kind = "add";
  graph.ops[0].arguments = {{"a", 1.0}, {"b", std::int64_t{1}}, {"c", 1e22}, {"d", -0.0}, {"e", 0.1}};
  const std::string text = ToJson(graph);
  EXPECT_NE(text.find(R"("arguments": {"a": 1.0, "b": 1, "c": 1e+22, "d": -0.0, "e": 0.1})"), std::string::npos)
      << text;
}

TEST(GraphJson, InfinityAndNanHaveNames) {
  const double inf = std::numeric_limits<double>::infinity();
  TrainingGraph graph;
  graph.scalars = {{"max_norm", inf}};
  graph.ops.resize(1);
  graph.ops[0].kind = "clamp";
  graph.ops[0].arguments = {{"min", -inf},
                            {"max", std::nan("")},
                            {"list", std::vector<double>{0.5, inf}},
                            {"no_floats", std::vector<double>{}},
                            {"no_bools", std::vector<bool>{}},
                            {"no_integers", Dims{}}};
  const std::string text = ToJson(graph);
  EXPECT_NE(text.find(R"({"name": "max_norm", "value": {"float": "inf"}})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"({"min": {"float": "-inf"}, "max": {"float": "nan"}, "list": {"floats": [0.5, "inf"]}, )"
                      R"("no_floats": {"floats": []}, "no_bools": {"bools": []}, "no_integers": []})"),
            std::string::npos)
      << text;
  const auto read = ParseGraph(text, "text");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(std::isnan(std::get<double>(read->ops[0].arguments[1].value)));
  EXPECT_EQ(ToJson(*read), text);
}

TEST(GraphJson, AScalarMayBeWrittenWithoutPoint) {
  const auto graph =
      ParseGraph(R"({"format": "ebbtide.graph", "version": 1, "scalars": [{"name": "lr", "value": 1}]})", "text");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->scalars[0].value, 1.0);
}

TEST(GraphJson, StridesLeftOutAreThoseOfTorch) {
  // A dimension of 0 counts as 1: torch.empty(2, 0, 3).stride() is (3, 3, 1).
  const auto graph = ParseGraph(R"({"format": "ebbtide.graph", "version": 1,
      "storages": [{"kind": "input", "bytes": 0}],
      "tensors": [{"storage": 0, "dtype": "bool", "shape": [2, 0, 3]}]})",
                                "text");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->tensors[0].stride, (Dims{3, 3, 1}));
}

RC_GTEST_PROP(GraphJson, ReadsBackWhatItWrites, (std::uint64_t seed)) {
  RandomGraphOptions options;
  options.ops = *rc::gen::inRange(0, 40);
  const TrainingGraph graph = RandomGraph(seed, options);
  const std::string text = ToJson(graph);
  const auto read = ParseGraph(text, "text");
  RC_ASSERT(read.has_value());
  RC_ASSERT(*read == graph);
  RC_ASSERT(ToJson(*read) == text);
}

class GraphFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("ebbtide-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "-" +
               std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const char* name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

TEST_F(GraphFile, IsReadPlainAndCompressed) {
  const TrainingGraph graph = RandomGraph(1, {.ops = 200});
  for (const char* name : {"graph.json", "graph.json.gz"}) {
    ASSERT_TRUE(WriteGraph(graph, Path(name)));
    const auto read = ReadGraph(Path(name));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, graph);
  }
  EXPECT_EQ(ReadFile(Path("graph.json"), kGiB), ToJson(graph));
  EXPECT_LT(std::filesystem::file_size(Path("graph.json.gz")), std::filesystem::file_size(Path("graph.json")) / 2);
}

TEST_F(GraphFile, LargerThanOneWriteIsWhole) {
  // 4,000 ops of some 400 bytes each: more than the megabyte that is written at a time.
  const TrainingGraph graph = RandomGraph(2, {.ops = 4000});
  const std::string text = ToJson(graph);
  ASSERT_GT(text.size(), std::size_t{1} << 20);
  ASSERT_TRUE(WriteGraph(graph, Path("graph.json")));
  EXPECT_TRUE(ReadFile(Path("graph.json"), kGiB) == text);
}

TEST_F(GraphFile, IsNotWrittenWhenItCouldNotBeRead) {
  TrainingGraph graph = TinyGraph();
  graph.ops[1].inputs[0] = TensorId(99);
  const Status status = WriteGraph(graph, Path("graph.json"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            Path("graph.json") + ": ops[1] (mm, fc): inputs[0]: expected a tensor number below 9, found 99");
  EXPECT_FALSE(std::filesystem::exists(Path("graph.json")));
}

TEST_F(GraphFile, NamesItselfInErrors) {
  const auto missing = ReadGraph(Path("missing.json"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, Path("missing.json") + ": no such file");
  ASSERT_TRUE(WriteFile(Path("bad.json"), "{\"format\": \"ebbtide.graph\",\n \"version\": 7}"));
  const auto newer = ReadGraph(Path("bad.json"));
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().message,
            Path("bad.json") + ": version: 7 is newer than this program reads (1) (line 2, column 13)");
}

}  // namespace
}  // namespace ebbtide
