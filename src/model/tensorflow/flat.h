// A graph without functions and loops: every node that would run, in an order that respects what each reads, with the
// shapes of all that they yield.
#pragma once

#include <deque>

#include "model/tensorflow/graph_def.h"

namespace ebbtide::model::tensorflow {

// What a flat graph may hold, whatever the file's functions and loops multiply to.
inline constexpr std::size_t kMostFlatNodes = 400'000;
inline constexpr std::size_t kMostListItems = 4'000'000;
inline constexpr std::size_t kMostKnownItems = 16'000'000;

using ValueId = int;
inline constexpr int kNone = -1;

// One tensor, handle or list that a node yields.
struct Value {
  Type type = {};
  Dims shape = {};
  std::optional<Array> known = {};  // its contents, where they follow from the file
  int node = kNone;                 // who yields it; kNone: a constant that is not worth a kernel
  int output = 0;
  int variable = kNone;  // what a handle is of
  int list = kNone;      // what a list holds
};

struct FlatNode {
  std::string name = {};
  std::string op = {};
  const Attributes* attributes = nullptr;
  std::vector<ValueId> inputs = {};
  std::vector<int> after = {};  // nodes that must have run before it, beside those it reads
  std::vector<ValueId> outputs = {};
  int call = 0;             // which call or iteration it is written out of
  int gradient_of = kNone;  // the node whose gradient it belongs to, where we made it
};

struct Variable {
  std::string name = {};
  DType dtype = DType::kFloat32;
  Dims shape = {};
  bool is_trainable = true;
};

struct Flat {
  std::vector<FlatNode> nodes;
  std::vector<Value> values;
  std::vector<Variable> variables;
  std::vector<std::vector<ValueId>> lists;  // kNone: an item that nobody has set
  std::vector<ValueId> results;
  std::deque<Attributes> attributes;  // of nodes that we made

  Value& value(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  FlatNode& node(int number) { return nodes[static_cast<std::size_t>(number)]; }
  const FlatNode& node(int number) const { return nodes[static_cast<std::size_t>(number)]; }
};

// node "dense/MatMul" (MatMul).
std::string Describe(const FlatNode& node);

}  // namespace ebbtide::model::tensorflow
