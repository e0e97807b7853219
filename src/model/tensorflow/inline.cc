// Goes through bodies with a stack of frames of its own, so that calls and loops of any depth do not recurse.
#include "model/tensorflow/inline.h"

#include <algorithm>

#include "base/json_text.h"
#include "model/tensorflow/inference.h"
#include "model/tensorflow/inputs.h"

namespace ebbtide::model::tensorflow {
namespace {

constexpr std::size_t kMostFrames = 64;  // calls within calls
constexpr std::size_t kMostTokens = 4;   // nodes that one waits for, before they get a node that waits for them all
constexpr Bytes kLeastConstant = 100 * kKiB;  // TensorFlow folds smaller ones

bool IsCall(std::string_view op) {
  return op == "PartitionedCall" || op == "StatefulPartitionedCall" || op == "StatelessPartitionedCall";
}
bool IsLoop(std::string_view op) { return op == "While" || op == "StatelessWhile"; }
bool IsBranch(std::string_view op) { return op == "If" || op == "StatelessIf"; }

// Nodes that others depend on.
std::vector<bool> NeededIn(const Body& body, const std::vector<Port>& results, const std::vector<int>& nodes) {
  std::vector<bool> is_needed(body.nodes.size());
  std::vector<int> open = nodes;
  for (const Port port : results) open.push_back(port.node);
  while (!open.empty()) {
    const int number = open.back();
    open.pop_back();
    if (is_needed[static_cast<std::size_t>(number)]) continue;
    is_needed[static_cast<std::size_t>(number)] = true;
    const Node& node = body.nodes[static_cast<std::size_t>(number)];
    for (const Port input : node.inputs) open.push_back(input.node);
    open.insert(open.end(), node.controls.begin(), node.controls.end());
  }
  return is_needed;
}

// A body that is being gone through.
struct Frame {
  enum class Role { kCall, kCondition, kIteration };
  const Body* body = nullptr;
  const std::vector<bool>* is_needed = nullptr;
  Role role = Role::kCall;
  int call = 0;
  std::size_t next = 0;                       // of its order
  std::vector<std::vector<ValueId>> outputs;  // by node
  std::vector<std::vector<int>> tokens;       // by node: whom to wait for if one waits for it
};

class Inliner {
 public:
  Inliner(const File& file, const ModelOptions& options)
      : file_(file), options_(options), needed_(file.functions.size()) {}

  Result<Flat> Run(const Goal& goal) {
    const std::vector<bool> is_needed = NeededIn(file_.graph, goal.results, goal.nodes);
    EBB_RETURN_IF_ERROR(Enter(file_.graph, &is_needed, Frame::Role::kCall, {}));
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (frame.next < frame.body->order.size()) {
        const int number = frame.body->order[frame.next];
        if (!(*frame.is_needed)[static_cast<std::size_t>(number)]) {
          ++frame.next;
          continue;
        }
        const Node& node = frame.body->nodes[static_cast<std::size_t>(number)];
        if (const Status status = Visit(frame, number, node); !status) {
          const std::string place = frame.body->name.empty() ? "" : "function " + Quoted(frame.body->name) + ": ";
          return Within(place + Describe(node), status.error());
        }
        continue;
      }
      if (frames_.size() == 1) {
        EBB_RETURN_IF_ERROR(Finish(frame, goal));
        frames_.pop_back();
        break;
      }
      EBB_RETURN_IF_ERROR(Leave());
    }
    return std::move(flat_);
  }

 private:
  Status Enter(const Body& body, const std::vector<bool>* is_needed, Frame::Role role, std::vector<ValueId> arguments) {
    if (frames_.size() >= kMostFrames) return Fail("expected at most {} calls within calls", kMostFrames);
    if (static_cast<std::size_t>(body.arguments) != arguments.size())
      return Fail("function {}: expected {} arguments, found {}", Quoted(body.name), body.arguments, arguments.size());
    Frame frame;
    frame.body = &body;
    frame.is_needed = is_needed;
    frame.role = role;
    frame.call = calls_++;
    frame.outputs.resize(body.nodes.size());
    frame.tokens.resize(body.nodes.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) frame.outputs[i] = {arguments[i]};
    visited_ += body.nodes.size();
    if (visited_ > 4 * kMostFlatNodes) return TooMany();
    frames_.push_back(std::move(frame));
    return {};
  }

  Result<int> FunctionOf(const Node& node, std::string_view attribute) const {
    std::string name = node.op;
    if (!attribute.empty()) {
      const auto* function = AttributeAs<FunctionAttribute>(node.attributes, attribute);
      if (function == nullptr) return Fail("attribute {}: expected a function", attribute);
      name = function->name;
    }
    const auto found = file_.function_numbers.find(name);
    if (found == file_.function_numbers.end()) return Fail("function {}: the file has none such", Quoted(name));
    return found->second;
  }

  Status EnterFunction(int number, Frame::Role role, std::vector<ValueId> arguments) {
    const Body& body = file_.functions[static_cast<std::size_t>(number)];
    auto& is_needed = needed_[static_cast<std::size_t>(number)];
    if (is_needed.empty()) is_needed = NeededIn(body, body.results, body.control_results);
    return Enter(body, &is_needed, role, std::move(arguments));
  }

  Result<std::vector<ValueId>> InputsOf(const Frame& frame, const Node& node) const {
    std::vector<ValueId> inputs;
    for (const Port port : node.inputs) {
      const std::vector<ValueId>& outputs = frame.outputs[static_cast<std::size_t>(port.node)];
      if (static_cast<std::size_t>(port.output) >= outputs.size())
        return Fail("reads output {} of {}, which has {}", port.output,
                    Describe(frame.body->nodes[static_cast<std::size_t>(port.node)]), outputs.size());
      inputs.push_back(outputs[static_cast<std::size_t>(port.output)]);
    }
    return inputs;
  }

  // Goes on to the next node, or into a function.
  Status Visit(Frame& frame, int number, const Node& node) {
    if (number < frame.body->arguments) {
      ++frame.next;
      return {};
    }
    EBB_ASSIGN_OR_RETURN(std::vector<ValueId> inputs, InputsOf(frame, node));
    if (IsCall(node.op) || file_.function_numbers.contains(node.op)) {
      EBB_ASSIGN_OR_RETURN(const int function, FunctionOf(node, IsCall(node.op) ? "f" : ""));
      return EnterFunction(function, Frame::Role::kCall, std::move(inputs));
    }
    if (IsLoop(node.op)) {
      EBB_ASSIGN_OR_RETURN(const int function, FunctionOf(node, "cond"));
      frame.outputs[static_cast<std::size_t>(number)] = inputs;  // what goes round
      return EnterFunction(function, Frame::Role::kCondition, std::move(inputs));
    }
    if (IsBranch(node.op)) {
      if (inputs.empty()) return Fail("expected a condition");
      EBB_ASSIGN_OR_RETURN(const bool is_true, Truth(inputs[0]));
      EBB_ASSIGN_OR_RETURN(const int function, FunctionOf(node, is_true ? "then_branch" : "else_branch"));
      return EnterFunction(function, Frame::Role::kCall, {inputs.begin() + 1, inputs.end()});
    }
    ++frame.next;
    std::vector<int> after = TokensOf(frame, node);
    return Emit(frame, number, node, std::move(inputs), std::move(after));
  }

  Result<bool> Truth(ValueId id) const {
    const std::optional<Array>& known = flat_.value(id).known;
    if (!known || known->stored() != 1) return Fail("expected a condition that follows from the file");
    return known->number(0) != 0;
  }

  // A function has come to its end: what it returns goes to the node that called it.
  Status Leave() {
    const Frame done = std::move(frames_.back());
    frames_.pop_back();
    Frame& frame = frames_.back();
    const int number = frame.body->order[frame.next];
    const Node& node = frame.body->nodes[static_cast<std::size_t>(number)];
    const auto leave = [&]() -> Status {
      std::vector<ValueId> results;
      EBB_RETURN_IF_ERROR(Collect(done, done.body->results, results));
      std::vector<ValueId>& outputs = frame.outputs[static_cast<std::size_t>(number)];
      if (done.role == Frame::Role::kCondition) {
        if (results.size() != 1) return Fail("expected a condition of one result");
        EBB_ASSIGN_OR_RETURN(const bool goes_on, Truth(results[0]));
        if (!goes_on) {
          ++frame.next;
          return {};
        }
        EBB_ASSIGN_OR_RETURN(const int function, FunctionOf(node, "body"));
        return EnterFunction(function, Frame::Role::kIteration, outputs);
      }
      std::vector<int>& tokens = frame.tokens[static_cast<std::size_t>(number)];
      tokens.clear();
      for (const int control : done.body->control_results) Join(tokens, done.tokens[static_cast<std::size_t>(control)]);
      EBB_RETURN_IF_ERROR(Gather(node, tokens));
      outputs = std::move(results);
      if (done.role == Frame::Role::kIteration) {
        EBB_ASSIGN_OR_RETURN(const int function, FunctionOf(node, "cond"));
        return EnterFunction(function, Frame::Role::kCondition, outputs);
      }
      ++frame.next;
      return {};
    };
    if (const Status status = leave(); !status) return Within(Describe(node), status.error());
    return {};
  }

  static Status Collect(const Frame& frame, const std::vector<Port>& ports, std::vector<ValueId>& values) {
    for (const Port port : ports) {
      const std::vector<ValueId>& outputs = frame.outputs[static_cast<std::size_t>(port.node)];
      if (static_cast<std::size_t>(port.output) >= outputs.size())
        return Fail("{}: expected an output {}", Describe(frame.body->nodes[static_cast<std::size_t>(port.node)]),
                    port.output);
      values.push_back(outputs[static_cast<std::size_t>(port.output)]);
    }
    return {};
  }

  static void Join(std::vector<int>& tokens, const std::vector<int>& more) {
    for (const int token : more) {
      if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
    }
  }
  static std::vector<int> TokensOf(const Frame& frame, const Node& node) {
    std::vector<int> tokens;
    for (const int control : node.controls) {
      const std::vector<int>& more = frame.tokens[static_cast<std::size_t>(control)];
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    return tokens;
  }
  // Many that are waited for become one.
  Status Gather(const Node& node, std::vector<int>& tokens) {
    if (tokens.size() <= kMostTokens) return {};
    FlatNode wait{.name = node.name, .op = "NoOp", .attributes = &node.attributes, .after = std::move(tokens)};
    EBB_ASSIGN_OR_RETURN(const int number, Append(std::move(wait)));
    tokens = {number};
    return {};
  }

  Status TooMany() const {
    return Fail("expected at most {} nodes when functions and loops are written out", kMostFlatNodes);
  }

  Result<int> Append(FlatNode node) {
    if (flat_.nodes.size() >= kMostFlatNodes || flat_.values.size() > 8 * kMostFlatNodes)
      return tl::unexpected(TooMany().error());
    flat_.nodes.push_back(std::move(node));
    return static_cast<int>(flat_.nodes.size()) - 1;
  }

  Status Emit(Frame& frame, int number, const Node& source, std::vector<ValueId> inputs, std::vector<int> after) {
    const std::size_t values = flat_.values.size(), lists = flat_.lists.size();
    FlatNode node{.name = source.name, .op = source.op, .attributes = &source.attributes, .inputs = std::move(inputs)};
    node.call = frame.call;
    std::vector<ValueId>& outputs = frame.outputs[static_cast<std::size_t>(number)];
    std::vector<int>& tokens = frame.tokens[static_cast<std::size_t>(number)];
    EBB_ASSIGN_OR_RETURN(const bool is_source, MakeSource(source, node));
    if (!is_source) EBB_RETURN_IF_ERROR(InferOutputs(flat_, node, options_.assume_elementwise));
    for (std::size_t i = values; i < flat_.values.size(); ++i) Bound(flat_.values[i]);
    if (lists < flat_.lists.size()) list_items_ += flat_.lists.back().size();
    if (list_items_ > kMostListItems) return TooMany();
    outputs = node.outputs;
    const bool changes_state = node.outputs.empty() && source.op != "NoOp" && source.op != "Assert";
    bool runs = changes_state || source.op == "Placeholder";
    for (std::size_t i = values; i < flat_.values.size() && !runs; ++i) runs = NeedsKernel(flat_.values[i]);
    if (!runs) {
      for (const ValueId input : node.inputs) {
        if (flat_.value(input).node != kNone) Join(after, {flat_.value(input).node});
      }
      tokens = std::move(after);
      return Gather(source, tokens);
    }
    node.after = std::move(after);
    const std::vector<ValueId> made = node.outputs;
    EBB_ASSIGN_OR_RETURN(const int flat_number, Append(std::move(node)));
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (static_cast<std::size_t>(made[i]) < values) continue;
      Value& value = flat_.value(made[i]);
      value.node = flat_number;
      value.output = static_cast<int>(i);
    }
    tokens = {flat_number};
    return {};
  }

  // Contents are followed only as long as they do not add up.
  void Bound(Value& value) {
    if (!value.known) return;
    known_items_ += value.known->stored();
    if (known_items_ > kMostKnownItems) value.known.reset();
  }

  static bool NeedsKernel(const Value& value) {
    if (value.type.kind != Kind::kNumbers) return false;
    return !value.known || *CountElements(value.shape) * ItemSize(value.type.dtype) >= kLeastConstant;
  }

  // Nodes that read nothing: variables, constants and placeholders.
  Result<bool> MakeSource(const Node& source, FlatNode& node) {
    Inference at(flat_, node);
    if (source.op == "Const") {
      const auto* constant = AttributeAs<Constant>(source.attributes, "value");
      if (constant == nullptr) return Fail("attribute value: expected a tensor");
      at.Yield(constant->type, constant->shape, constant->contents);
      return true;
    }
    if (source.op == "VarHandleOp" || source.op == "VariableV2" || source.op == "Variable") {
      const auto* shape = AttributeAs<ShapeAttribute>(source.attributes, "shape");
      const Type type = at.TypeFrom("dtype", {});
      if (shape == nullptr || !shape->sizes || !CountElements(*shape->sizes) || type.kind != Kind::kNumbers)
        return Fail("attribute shape: expected the shape of a variable");
      const std::string shared = at.Text("shared_name", "");
      const std::string& name = shared.empty() || !IsUtf8(shared) ? source.name : shared;
      const auto trainable = file_.is_trainable.find(name);
      const bool is_handle = source.op == "VarHandleOp";
      const Dims sizes = *shape->sizes;
      at.Yield(is_handle ? Type{Kind::kResource, DType::kUInt8} : type, is_handle ? Dims{} : sizes);
      const auto [number, is_new] = variable_numbers_.emplace(name, static_cast<int>(flat_.variables.size()));
      if (is_new) {
        flat_.variables.push_back({.name = name,
                                   .dtype = type.dtype,
                                   .shape = sizes,
                                   .is_trainable = trainable == file_.is_trainable.end() || trainable->second});
      }
      flat_.values.back().variable = number->second;
      return true;
    }
    if (source.op == "Placeholder") {
      const auto* shape = AttributeAs<ShapeAttribute>(source.attributes, "shape");
      const Type type = at.TypeFrom("dtype", {});
      EBB_ASSIGN_OR_RETURN(Dims sizes, BindInput(shape ? shape->sizes : std::nullopt, type.dtype, options_));
      at.Yield(type, std::move(sizes));
      return true;
    }
    return false;
  }

  Status Finish(const Frame& frame, const Goal& goal) { return Collect(frame, goal.results, flat_.results); }

  const File& file_;
  const ModelOptions& options_;
  Flat flat_;
  std::vector<Frame> frames_;
  std::map<std::string, int> variable_numbers_;
  std::vector<std::vector<bool>> needed_;  // by function; empty: not asked for yet
  int calls_ = 0;
  std::size_t visited_ = 0, list_items_ = 0, known_items_ = 0;
};

}  // namespace

Result<Flat> Inline(const File& file, const Goal& goal, const ModelOptions& options) {
  return Inliner(file, options).Run(goal);
}

}  // namespace ebbtide::model::tensorflow
