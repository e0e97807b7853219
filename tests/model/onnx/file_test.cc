// From structure to nodes and names: what must hold of a file before any operator is looked at.
#include "model/onnx/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/onnx/onnx_model.h"

namespace ebbtide::model::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OnnxModel Chain() {
  return OnnxModel()
      .Input("x", {"batch", 4})
      .Weight("w", {4, 4})
      .Node("MatMul", {"x", "w"}, {"a"})
      .Node("Relu", {"a"}, {"y"});
}

TEST(FileTest, NamesBecomeNumbers) {
  const File file = ParseFile(Chain().Output("y").Bytes()).value();
  EXPECT_EQ(file.opset, 17);
  ASSERT_EQ(file.nodes.size(), 2u);
  EXPECT_EQ(file.values[file.nodes[0].inputs[1]], "w");
  EXPECT_EQ(file.nodes[1].inputs, file.nodes[0].outputs);
  EXPECT_EQ(file.initializers[file.nodes[0].inputs[1]]->shape, (Dims{4, 4}));
  EXPECT_EQ(file.inputs[0].shape[0].symbol, "batch");
}

TEST(FileTest, ConstantNodesAreInitializers) {
  const File file = ParseFile(OnnxModel()
                                  .Input("x", {6})
                                  .Node("Constant", {}, {"shape"}, {{"value_ints", std::vector<std::int64_t>{2, 3}}})
                                  .Node("Reshape", {"x", "shape"}, {"y"})
                                  .Output("y")
                                  .Bytes())
                        .value();
  ASSERT_EQ(file.nodes.size(), 1u);
  EXPECT_EQ(file.nodes[0].number, 1) << "numbers are those of the file";
  EXPECT_THAT(file.initializers[file.nodes[0].inputs[1]]->contents->integers, ElementsAre(2, 3));
}

TEST(FileTest, RawDataAndListsGiveTheSameContents) {
  OnnxModel model;
  model.Input("x", {1}).Weight("a", {2}, kInt64Type).Weight("h", {2}, kHalf).Node("Relu", {"x"}, {"y"}).Output("y");
  const std::int64_t numbers[] = {-5, 7};
  model.message.mutable_graph()->mutable_initializer(0)->set_raw_data(numbers, sizeof(numbers));
  // Half precision: 0x3c00 is 1, 0xc100 is -2.5 (sign, exponent 16 - 15 = 1, fraction 1.25).
  const std::uint16_t halves[] = {0x3c00, 0xc100};
  model.message.mutable_graph()->mutable_initializer(1)->set_raw_data(halves, sizeof(halves));
  const File file = ParseFile(model.Bytes()).value();
  EXPECT_THAT(file.initializers[0]->contents->integers, ElementsAre(-5, 7));
  EXPECT_THAT(file.initializers[1]->contents->reals, ElementsAre(1, -2.5));
}

TEST(FileTest, WhatNothingReadsIsDropped) {
  File file = ParseFile(Chain().Node("Sigmoid", {"a"}, {"unused"}).Output("y").Bytes()).value();
  EXPECT_EQ(file.nodes.size(), 3u);
  DropUnused(file);
  EXPECT_EQ(file.nodes.size(), 2u);
}

TEST(FileTest, Versions) {
  EXPECT_EQ(ErrorOf(OnnxModel(10)), "test.onnx: opset 10: expected 11 to 28");
  EXPECT_EQ(ErrorOf(OnnxModel(29)), "test.onnx: opset 29: expected 11 to 28");
  OnnxModel old = Chain();
  old.message.set_ir_version(2);
  EXPECT_EQ(ErrorOf(old), "test.onnx: ir_version 2: expected 3 or later");
  OnnxModel other = Chain();
  other.message.mutable_opset_import(0)->set_domain("com.microsoft");
  EXPECT_EQ(ErrorOf(other), "test.onnx: opset 0: expected 11 to 28");
  OnnxModel without_graph;
  without_graph.message.clear_graph();
  EXPECT_EQ(ErrorOf(without_graph), "test.onnx: expected an ONNX model with a graph");
  EXPECT_EQ(ErrorOf(std::string()), "test.onnx: is empty: expected an ONNX model");
}

TEST(FileTest, OrderAndCycles) {
  EXPECT_EQ(ErrorOf(OnnxModel().Input("x", {1}).Node("Relu", {"a"}, {"y"}).Node("Relu", {"x"}, {"a"}).Output("y")),
            "test.onnx: node 0 (op Relu): reads \"a\", which node 1 (op Relu) makes: expected nodes in order, without "
            "cycles");
  EXPECT_EQ(ErrorOf(OnnxModel().Input("x", {1}).Node("Add", {"x", "y"}, {"y"}).Output("y")),
            "test.onnx: node 0 (op Add): reads \"y\", which it makes: expected nodes in order, without cycles");
}

TEST(FileTest, DanglingNames) {
  EXPECT_EQ(ErrorOf(OnnxModel().Input("x", {1}).Node("Add", {"x", "nowhere"}, {"y"}).Output("y")),
            "test.onnx: node 0 (op Add): reads \"nowhere\", which no input, initializer or node makes");
  EXPECT_EQ(ErrorOf(Chain().Output("z")), "test.onnx: output 0 (\"z\"): no input, initializer or node makes it");
  EXPECT_EQ(ErrorOf(Chain()), "test.onnx: graph: expected at least one output");
}

TEST(FileTest, NamesAreMadeOnce) {
  EXPECT_EQ(ErrorOf(Chain().Node("Relu", {"x"}, {"y"}).Output("y")),
            "test.onnx: node 2 (op Relu): makes \"y\", as does node 1 (op Relu): expected a new name");
  EXPECT_EQ(ErrorOf(Chain().Node("Relu", {"x"}, {"w"}).Output("y")),
            "test.onnx: node 2 (op Relu): makes \"w\", which is an input or initializer: expected a new name");
  EXPECT_THAT(ErrorOf(Chain().Weight("w", {3}).Output("y")), HasSubstr("expected one initializer of this name"));
  EXPECT_THAT(ErrorOf(Chain().Input("x", {3}).Output("y")), HasSubstr("expected one input of this name"));
}

TEST(FileTest, NamesInMessagesAreSafe) {
  OnnxModel model = Chain().Output("y");
  model.message.mutable_graph()->mutable_node(0)->set_name("evil\x1b[2J\nname");
  model.message.mutable_graph()->mutable_node(0)->set_op_type("Foo\x07");
  EXPECT_EQ(ErrorOf(model),
            "test.onnx: node 0 (name \"evil\\u001b[2J\\nname\", op \"Foo\\u0007\"): operator is not supported; "
            "--assume-elementwise goes on as if it kept the shape of its first input");
  model.message.mutable_graph()->mutable_node(0)->set_name("not \xff UTF-8");
  EXPECT_EQ(ErrorOf(model), "test.onnx: node 0: name \"not ? UTF-8\": expected UTF-8");
}

TEST(FileTest, SizesOfTensors) {
  EXPECT_EQ(ErrorOf(OnnxModel().Input("x", {-1, 4}).Node("Relu", {"x"}, {"y"}).Output("y")),
            "test.onnx: input 0 (\"x\"): axis 0 of size -1: expected 1 to 2^48, or a symbol");
  EXPECT_EQ(ErrorOf(Chain().Weight("v", {4, -1}).Output("y")),
            "test.onnx: initializer 1 (\"v\"): expected at most 32 axes, none negative, and at most 2^48 elements");
  EXPECT_THAT(ErrorOf(Chain().Weight("v", {1 << 30, 1 << 30, 1 << 30}).Output("y")),
              HasSubstr("at most 2^48 elements"));
  EXPECT_THAT(ErrorOf(Chain().Weight("v", Dims(33, 1)).Output("y")), HasSubstr("at most 32 axes"));
  EXPECT_EQ(ErrorOf(Chain().Weight("v", {4}, 8).Output("y")),
            "test.onnx: initializer 1 (\"v\"): data type 8: expected numbers of a type that torch has");
}

TEST(FileTest, InputsOfOneNodeAreBounded) {
  OnnxModel model = Chain();
  model.Node("Concat", std::vector<std::string>(kMostNodeValues + 1, "a"), {"z"}, {{"axis", 0}}).Output("z");
  EXPECT_THAT(ErrorOf(model), HasSubstr("expected at most 4096 inputs and outputs"));
}

}  // namespace
}  // namespace ebbtide::model::onnx
