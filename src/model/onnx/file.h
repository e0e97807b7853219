// An .onnx as values: nodes in order, the names between them as numbers, constants, inputs and outputs.
// Weights are shapes here; only file.cc knows protobuf.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "model/array.h"

namespace ebbtide::model::onnx {

// Operator sets of the default domain that we know.
inline constexpr std::int64_t kOldestOpset = 11;
inline constexpr std::int64_t kNewestOpset = 28;
inline constexpr std::size_t kMostNodeValues = 4096;  // inputs or outputs of one node

using ValueId = int;  // index of a name; -1: an input or output that is left out
inline constexpr ValueId kNoValue = -1;

// A tensor that is part of the file. Its contents are known if it is small.
struct Constant {
  DType dtype = DType::kFloat32;
  Dims shape = {};
  std::optional<Array> contents = {};
  bool from_node = false;  // a Constant node's
};

using AttributeValue =
    std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>, Constant>;

struct Node {
  int number = 0;    // in the file
  std::string name;  // may be empty
  std::string op;    // "Conv"; "com.microsoft.Gelu" outside the default domain
  std::vector<ValueId> inputs = {}, outputs = {};
  std::vector<std::pair<std::string, AttributeValue>> attributes = {};

  const AttributeValue* FindAttribute(std::string_view name) const;
  ValueId input(std::size_t i) const { return i < inputs.size() ? inputs[i] : kNoValue; }
  // The attribute if it is there and of that type.
  template <class T>
  const T* Get(std::string_view name) const {
    const AttributeValue* value = FindAttribute(name);
    return value ? std::get_if<T>(value) : nullptr;
  }
};

// Element types by ONNX's number (TensorProto.DataType); nullopt where torch has no such type of that size.
std::optional<DType> TypeFromNumber(std::int64_t number);

// How messages name a node: "node 17 (name "/a/b", op Foo)".
std::string Describe(const Node& node);

struct Dimension {
  std::int64_t size = 0;  // 0: symbolic
  std::string symbol;     // its name, may be empty
};

struct InputTensor {
  ValueId value = kNoValue;
  DType dtype = DType::kFloat32;
  std::vector<Dimension> shape = {};
};

struct File {
  std::string name;  // for people
  std::string producer;
  std::int64_t opset = 0;
  std::vector<std::string> values;                    // by ValueId: names
  std::vector<std::optional<Constant>> initializers;  // by ValueId; Constant nodes become initializers
  std::vector<InputTensor> inputs;
  std::vector<ValueId> outputs;
  std::vector<Node> nodes;  // no Constant; each reads what inputs, initializers and earlier nodes make
};

// `structure` is what wire.h leaves of the file.
Result<File> ParseFile(const std::string& structure);

// Drops the nodes that no output depends on.
void DropUnused(File& file);

}  // namespace ebbtide::model::onnx
