// What is left of a file before anything of it is understood: bounded, and every fault with its place.
#include "model/onnx/wire.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include "tests/model/onnx/onnx_model.h"

namespace ebbtide::model::onnx {
namespace {

using ::testing::HasSubstr;

Result<std::string> Structure(const std::string& bytes) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return ReadStructure(stream, static_cast<Bytes>(bytes.size()));
}

std::string StructureError(const std::string& bytes) {
  Result<std::string> structure = Structure(bytes);
  return structure ? "no error" : structure.error().message;
}

// tag, length, content
std::string Field(int number, const std::string& content) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  std::size_t length = content.size();
  for (; length >= 128; length >>= 7) out += static_cast<char>(length | 128);
  return out + static_cast<char>(length) + content;
}

TEST(WireTest, StructureIsTheSameMessage) {
  const std::string bytes = SmallClassifier().Bytes();
  EXPECT_EQ(Structure(bytes).value(), bytes);
}

TEST(WireTest, WeightsAreLeftOut) {
  OnnxModel model = SmallClassifier();
  const std::string without = model.Bytes();
  model.message.mutable_graph()->mutable_initializer(0)->set_raw_data(std::string(1 << 20, 'w'));
  EXPECT_EQ(Structure(model.Bytes()).value(), without);
  // The same for weights that are lists of numbers, packed or not.
  for (int i = 0; i < 100000; ++i) model.message.mutable_graph()->mutable_initializer(1)->add_float_data(0.5);
  EXPECT_LT(Structure(model.Bytes()).value().size(), without.size() + 2 * kMostTensorDataBytes);
}

TEST(WireTest, SmallConstantsAreKept) {
  const std::string bytes = OnnxModel().Integers("shape", {1, -1, 5}).Bytes();
  EXPECT_EQ(Structure(bytes).value(), bytes);
}

TEST(WireTest, WhatTheSchemaDoesNotListIsSkipped) {
  // Field 6 of a model is its doc_string, field 14 its metadata.
  const std::string bytes = SmallClassifier().Bytes();
  EXPECT_EQ(Structure(Field(6, "a description") + bytes + Field(14, "more")).value(), bytes);
}

// `depth` times a node in an attribute's graph: graph.node = 1, node.attribute = 5, attribute.g = 6. Written from the
// inside out, so that the lengths are known.
std::string NestedGraphs(int depth) {
  std::string backwards;
  for (int i = 0; i < depth; ++i) {
    for (int number : {6, 5, 1}) {
      std::string head(1, static_cast<char>(number << 3 | 2));
      std::size_t length = backwards.size();
      for (; length >= 128; length >>= 7) head += static_cast<char>(length | 128);
      head += static_cast<char>(length);
      backwards.append(head.rbegin(), head.rend());
    }
  }
  return {backwards.rbegin(), backwards.rend()};
}

TEST(WireTest, DepthOfTheInputDoesNotMatter) {
  // Only the outermost graph is looked at; the one in its node's attribute is skipped, a million levels at once.
  EXPECT_EQ(Structure(Field(7, NestedGraphs(1'000'000))).value(), Field(7, Field(1, Field(5, ""))));
}

TEST(WireTest, EveryTruncationIsNoticed) {
  OnnxModel model = OnnxModel().Input("x", {1, 2}).Node("Relu", {"x"}, {"y"}).Output("y");
  model.message.clear_opset_import();
  const std::string bytes = model.Bytes();
  // ir_version is a message of its own, of two bytes; behind it the graph is cut.
  for (std::size_t length = 3; length < bytes.size(); ++length) {
    EXPECT_FALSE(Structure(bytes.substr(0, length)).has_value()) << length;
  }
}

TEST(WireTest, FaultsNameTheByteAndThePlace) {
  // Byte 0: tag of graph (7 << 3 | 2 = 58), 1: its length; byte 2: tag of node (10) that claims 100 bytes.
  EXPECT_EQ(StructureError(std::string{58, 3, 10, 100, 0}), "byte 2, graph.node[0]: claims 100 bytes, but 1 are left");
  // Field 1 (ir_version) is a number, here said to be of 64 fixed bits.
  EXPECT_EQ(StructureError(std::string{8 | 1, 0, 0, 0, 0, 0, 0, 0, 0}),
            "byte 0, ir_version: is of another wire type than ONNX gives this field");
  EXPECT_THAT(StructureError(std::string{8}), HasSubstr("bytes end early"));
  EXPECT_THAT(StructureError(std::string{0, 0}), HasSubstr("expected a field of an ONNX message"));
  EXPECT_THAT(StructureError("this is no protobuf"), HasSubstr("byte "));
}

TEST(WireTest, FourGigabytesThatAreNotThere) {
  // Length 0xffffffff as a varint.
  const std::string claim = {58, '\xff', '\xff', '\xff', '\xff', '\x0f', 1};
  EXPECT_EQ(StructureError(claim), "byte 0, graph: claims 4294967295 bytes, but 1 are left");
  // And 2^63, which no signed number holds.
  std::string huge = {58};
  huge += std::string(9, '\xff') + "\x01";
  EXPECT_THAT(StructureError(huge), HasSubstr("claims 18446744073709551615 bytes"));
}

TEST(WireTest, GroupsAreNotONNX) {
  // 4000 nested starts of a group: one complaint, no recursion.
  EXPECT_THAT(StructureError(std::string(4000, static_cast<char>(9 << 3 | 3))), HasSubstr("expected a field"));
}

TEST(WireTest, NumberOfFieldsIsBounded) {
  // Empty nodes take two bytes each here and far more in memory.
  std::string nodes;
  for (std::int64_t i = 0; i < kMostFields; ++i) nodes += std::string{10, 0};
  EXPECT_THAT(StructureError(Field(7, nodes)), HasSubstr("expected at most 4000000 fields besides weights"));
}

TEST(WireTest, PackedNumbersAreWhole) {
  // attribute.ints (8) packed, with a last byte that wants another.
  const std::string attribute = Field(8, "\x01\x80");
  EXPECT_THAT(StructureError(Field(7, Field(1, Field(5, attribute)))), HasSubstr("the last one is cut"));
  const std::string floats = Field(7, "abc");
  EXPECT_THAT(StructureError(Field(7, Field(1, Field(5, floats)))), HasSubstr("graph.node[0].attribute[0].floats[0]"));
}

}  // namespace
}  // namespace ebbtide::model::onnx
