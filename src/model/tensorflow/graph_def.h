// A GraphDef or a SavedModel as values: the nodes of the graph and of its functions, with what they read as numbers.
// Weights are shapes here; only graph_def.cc knows protobuf.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "model/array.h"

namespace ebbtide::model::tensorflow {

inline constexpr std::size_t kMostNodeInputs = 65536;

// Elements that are no numbers: handles of variables, lists of tensors, text.
enum class Kind : std::uint8_t { kNumbers, kResource, kVariant, kText };

struct Type {
  Kind kind = Kind::kNumbers;
  DType dtype = DType::kFloat32;
  bool operator==(const Type&) const = default;
};
// By TensorFlow's number (DataType); nullopt: one that we do not follow.
std::optional<Type> TypeFromNumber(std::int64_t number);

// A tensor that is part of the file. Its contents are known if it is small.
struct Constant {
  Type type;
  Dims shape = {};
  std::optional<Array> contents = {};
};

struct ShapeAttribute {
  std::optional<Dims> sizes;  // -1: not known; nullopt: not even their number
};
struct TypeAttribute {
  std::int64_t number = 0;
};
struct FunctionAttribute {
  std::string name;
};
using Attribute = std::variant<std::int64_t, double, bool, std::string, TypeAttribute, ShapeAttribute, Constant,
                               std::vector<std::int64_t>, FunctionAttribute>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

const Attribute* FindAttribute(const Attributes& attributes, std::string_view name);
// The attribute if it is there and of that type.
template <class T>
const T* AttributeAs(const Attributes& attributes, std::string_view name) {
  const Attribute* attribute = FindAttribute(attributes, name);
  return attribute ? std::get_if<T>(attribute) : nullptr;
}

// One output of a node of the same body.
struct Port {
  int node = 0;
  int output = 0;
};

struct Node {
  std::string name = {};
  std::string op = {};
  std::vector<Port> inputs = {};
  std::vector<int> controls = {};  // nodes that must have run before it
  Attributes attributes = {};
};

// Of a function, or the graph itself. The first `arguments` nodes are its arguments, of kArgument.
struct Body {
  std::string name = {};
  std::vector<Node> nodes = {};
  std::vector<int> order = {};  // of the nodes: each behind what it reads
  int arguments = 0;
  std::vector<Port> results = {};
  std::vector<int> control_results = {};
};
inline constexpr const char* kArgument = "_Arg";

// What a SavedModel calls by a name: ports of its graph.
struct Signature {
  std::string name = {};
  std::vector<std::pair<std::string, Port>> inputs = {}, outputs = {};
};

struct File {
  std::string version = {};  // of TensorFlow, where the file tells it
  Body graph = {};
  std::vector<Body> functions = {};
  std::map<std::string, int, std::less<>> function_numbers = {};
  std::vector<Signature> signatures = {};                      // none: a plain GraphDef
  std::map<std::string, bool, std::less<>> is_trainable = {};  // variables by name, where the file says it
};

// `structure` is what wire.h leaves of the file.
Result<File> ParseGraphDef(const std::string& structure);
Result<File> ParseSavedModel(const std::string& structure);

// node "dense/MatMul" (MatMul).
std::string Describe(const Node& node);

}  // namespace ebbtide::model::tensorflow
