// Layer profiles become the training step that Checkmate plans on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "graph/check.h"
#include "graph/liveness.h"
#include "model/timed/timed.h"
#include "tests/support/folders.h"

namespace ebbtide::model::timed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Node(int number, const std::string& layer, const std::string& forward, const std::string& backward,
                 const std::string& bytes) {
  return "node" + std::to_string(number) + " -- " + layer + " -- forward_compute_time=" + forward +
         ", backward_compute_time=" + backward + ", activation_size=" + bytes + ", parameter_size=12.000\n";
}

// 1 -> 2 -> 3 -> 4, and 2 -> 4. Lines are in no order.
std::string Small() {
  return Node(3, "ReLU(inplace)", "0.250", "0.500", "100.000") + Node(1, "Input", "9.000", "0.000", "40.000") +
         Node(4, "Add(inplace)", "0.000", "0.000", "100.000") +
         Node(2, "Conv2d(3, 64, kernel_size=(3, 3))", "1.234", "2.000", "100.000") +
         "\tnode2 -- node3\n\tnode1 -- node2\n\tnode3 -- node4\n\tnode2 -- node4";
}

TEST(LayerProfile, SmallOneByHand) {
  const auto graph = ParseLayers(Small(), "small");
  ASSERT_TRUE(graph) << graph.error().message;
  std::vector<std::string> kinds;
  std::vector<Nanos> times;
  std::vector<Bytes> bytes;
  for (const Op& op : graph->ops) {
    kinds.push_back(op.kind);
    times.push_back(op.time);
    bytes.push_back(graph->storage_of(op.outputs[0]).bytes);
  }
  EXPECT_THAT(kinds, ElementsAre("input", "convolution", "relu", "add", "loss", "add_backward", "threshold_backward",
                                 "convolution_backward"));
  // The input's 9 ms are those of loading data.
  EXPECT_THAT(times, ElementsAre(0, 1'234'000, 250'000, 0, 1000, 0, 500'000, 2'000'000));
  // Gradients have the bytes of the inputs: add has two of 100.
  EXPECT_THAT(bytes, ElementsAre(40, 100, 100, 100, 4, 200, 100, 40));

  // Backward of node 2: its output, its input, and the gradients that nodes 3 and 4 made.
  const auto storages = [&](const Op& op) {
    std::vector<std::int32_t> ids;
    for (const TensorId id : op.inputs) ids.push_back(graph->tensor(id).storage.value);
    return ids;
  };
  EXPECT_THAT(storages(graph->ops[7]), testing::UnorderedElementsAre(1, 0, 5, 6));
  EXPECT_THAT(storages(graph->ops[5]), testing::UnorderedElementsAre(3, 2, 1, 4));
  // Most during the backward of node 4 or 3: 40 + 3 * 100 + 4 + 200 (then 40 + 200 + 4 + 200 + 100).
  EXPECT_EQ(PeakLiveBytes(*graph, ComputeLiveness(*graph)), (Peak{.bytes = 544, .at = OpId(5)}));
}

std::string Complaint(const std::string& text) {
  const auto graph = ParseLayers(text, "bad");
  if (graph) return "valid";
  EXPECT_EQ(graph.error().message.find('\n'), std::string::npos);
  return graph.error().message;
}

TEST(LayerProfile, BadOnesNameTheLine) {
  const std::string one = Node(1, "Input", "1.000", "0.000", "4.000");
  const std::string two = one + Node(2, "ReLU(inplace)", "1.000", "0.000", "4.000");
  EXPECT_EQ(Complaint(one), "valid");
  EXPECT_THAT(Complaint(""), HasSubstr("bad: expected lines such as"));
  EXPECT_THAT(Complaint("hello\n"), HasSubstr("bad: line 1: expected \"node1 -- node2\""));
  EXPECT_EQ(Complaint("edge1 -- node2\n"), "bad: line 1: expected a node such as \"node17\", found \"edge1\"");
  EXPECT_EQ(Complaint("node-1 -- node2\n"), "bad: line 1: expected a node such as \"node17\", found \"node-1\"");
  EXPECT_THAT(Complaint("node99999999999999999999 -- node2\n"), HasSubstr("bad: line 1: expected a node"));
  EXPECT_EQ(Complaint(one + one), "bad: line 2: node1 is already described in line 1");
  EXPECT_EQ(Complaint(one + "\tnode1 -- node3\n"), "bad: line 2: no line describes node3");
  EXPECT_EQ(Complaint(two + "\tnode1 -- node2\n\n\tnode1 -- node2\n"),
            "bad: line 5: the edge node1 -- node2 is there twice");
  EXPECT_EQ(Complaint(two + "\tnode2 -- node2\n"), "bad: line 2: node2 needs its own output, through a cycle of edges");
  EXPECT_THAT(Complaint(two + "\tnode1 -- node2\n\tnode2 -- node1\n"), HasSubstr("through a cycle of edges"));
  EXPECT_EQ(Complaint(Node(1, "Input", "-1.000", "0.000", "4.000")),
            "bad: line 1: forward_compute_time: expected a number from 0 to 1e+12, found \"-1.000\"");
  EXPECT_THAT(Complaint(Node(1, "Input", "nan", "0.000", "4.000")), HasSubstr("line 1: forward_compute_time"));
  EXPECT_THAT(Complaint(Node(1, "Input", "0", "inf", "4.000")), HasSubstr("line 1: backward_compute_time"));
  EXPECT_THAT(Complaint(Node(1, "Input", "0", "0", "4.500")), HasSubstr("expected a whole number of bytes"));
  EXPECT_THAT(Complaint(Node(1, "Input", "0", "0", "1e30")), HasSubstr("line 1: activation_size"));
  EXPECT_THAT(Complaint("node1 -- Input -- forward_compute_time=1, forward_compute_time=1\n"), HasSubstr("twice"));
  EXPECT_THAT(Complaint("node1 -- Input -- forward_compute_time=1\n"), HasSubstr("expected backward_compute_time"));
  EXPECT_THAT(Complaint("node1 -- Input -- speed=1\n"), HasSubstr("found \"speed=1\""));
  EXPECT_THAT(Complaint("node1 -- (x) -- speed=1\n"), HasSubstr("expected a layer"));
  // Sums that do not fit: two outputs of 9e18 bytes.
  EXPECT_THAT(Complaint(Node(1, "Input", "0", "0", "9e18") + Node(2, "ReLU", "0", "0", "9e18")), HasSubstr("64 bits"));
}

// The figures of a published profile: 41 layers with the input, a loss and 40 backward ops.
TEST(LayerProfile, Vgg16) {
  const std::filesystem::path file = DataFolder() / "graphs" / "layers_vgg16.txt";
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << file << " is not there; EBBTIDE_DATA names the folder of the data";
  }
  const auto graph = ReadLayers(file.string());
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->ops.size(), 82u);
  Nanos time = 0;
  Bytes activations = 0;
  for (const Op& op : graph->ops) time += op.time;
  for (const Storage& storage : graph->storages) {
    if (storage.kind == StorageKind::kActivation) activations += storage.bytes;
  }
  EXPECT_EQ(time, 672'536'000);
  // Checkmate's store-all keeps every layer's output to the end: these and the largest gradient are its 16,403 MB.
  EXPECT_EQ(activations + 1'644'167'168, 16'403'386'376);
  // Where each is dropped after its last use, the step needs less.
  EXPECT_EQ(PeakLiveBytes(*graph, ComputeLiveness(*graph)).bytes, 14'823'194'628);
}

}  // namespace
}  // namespace ebbtide::model::timed
