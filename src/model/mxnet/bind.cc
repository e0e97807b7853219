// Tells what a variable is from the operator that reads it first.
#include "model/mxnet/bind.h"

#include <algorithm>

#include "model/mxnet/operators.h"

namespace ebbtide::model::mxnet {
namespace {

constexpr std::int64_t kImageSize = 224, kChannels = 3, kTokens = 35;

// Who reads a node first, and as which of its inputs.
struct Reader {
  int node = -1;
  std::size_t input = 0;
};

std::vector<Reader> FirstReaders(const Symbol& symbol) {
  std::vector<Reader> readers(symbol.nodes.size());
  for (std::size_t i = 0; i < symbol.nodes.size(); ++i) {
    const std::vector<Entry>& inputs = symbol.nodes[i].inputs;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      Reader& reader = readers[static_cast<std::size_t>(inputs[k].node)];
      if (reader.node < 0) reader = {static_cast<int>(i), k};
    }
  }
  return readers;
}

class Binder {
 public:
  Binder(Symbol& symbol, const ModelOptions& options)
      : symbol_(symbol),
        options_(options),
        readers_(FirstReaders(symbol)),
        roles_(symbol.nodes.size(), Role::kParameter) {}

  Result<std::vector<Role>> Bind() {
    for (std::size_t i = 0; i < symbol_.nodes.size(); ++i) {
      if (!symbol_.nodes[i].is_variable()) continue;
      if (const Status status = BindVariable(static_cast<int>(i)); !status) {
        return Within(Describe(symbol_, static_cast<int>(i)), status.error());
      }
    }
    for (const int label : labels_)
      symbol_.node(label).shapes = {has_tokens_ ? Dims{options_.batch_size, Tokens()} : Dims{options_.batch_size}};
    return roles_;
  }

 private:
  // Behind what keeps shapes: the reader that says what the variable is.
  Reader RealReader(int variable) const {
    Reader reader = readers_[static_cast<std::size_t>(variable)];
    while (reader.node >= 0 && reader.input == 0) {
      const std::string& op = symbol_.node(reader.node).op;
      const bool is_label_shape = (op == "Reshape" || op == "reshape" || op == "Flatten") && LeadsToLabel(reader.node);
      if (op != "_copy" && op != "identity" && op != "BlockGrad" && op != "SwapAxis" && op != "transpose" &&
          !is_label_shape)
        break;
      reader = readers_[static_cast<std::size_t>(reader.node)];
    }
    return reader;
  }

  bool LeadsToLabel(int node) const {
    const Reader next = readers_[static_cast<std::size_t>(node)];
    return next.node >= 0 && next.input == 1 && symbol_.node(next.node).op == "SoftmaxOutput";
  }

  Status BindVariable(int number) {
    Node& node = symbol_.node(number);
    const Reader reader = RealReader(number);
    const std::string op = reader.node < 0 ? "" : symbol_.node(reader.node).op;
    Role& role = roles_[static_cast<std::size_t>(number)];
    EBB_ASSIGN_OR_RETURN(Dims shape, TupleOf(node, "__shape__", {}));
    if (op == "SoftmaxOutput" && reader.input == 1) {
      role = Role::kInput;
      labels_.push_back(number);
      return {};
    }
    if (op == "BatchNorm" && reader.input >= 3) role = Role::kBuffer;
    const bool takes_data = op == "Convolution" || op == "Pooling" || op == "BatchNorm" || op == "Embedding" ||
                            op == "FullyConnected" || op == "RNN" || op == "SliceChannel";
    if (takes_data && reader.input == 0) {
      role = Role::kInput;
      EBB_ASSIGN_OR_RETURN(const Dims data, DataShape(shape, symbol_.node(reader.node)));
      node.shapes = {data};
    } else if (!shape.empty() && std::all_of(shape.begin(), shape.end(), [](auto size) { return size > 0; })) {
      node.shapes = {shape};
    }
    return {};
  }

  Result<Dims> DataShape(Dims declared, const Node& reader) {
    const Dims usual = UsualShape(reader);
    if (reader.op == "Embedding") has_tokens_ = true;
    if (declared.empty()) {
      if (usual.empty()) return Fail("its shape is not known; expected a __shape__ attribute");
      return usual;
    }
    for (std::size_t i = 0; i < declared.size(); ++i) {
      if (declared[i] > 0) continue;
      if (i > 0 && i >= usual.size()) return Fail("__shape__: expected sizes behind the batch");
      declared[i] = i == 0 ? options_.batch_size : usual[i];
    }
    return declared;
  }

  // None: the operator does not say.
  Dims UsualShape(const Node& reader) const {
    const std::int64_t image = options_.image_size.value_or(kImageSize);
    if (reader.op == "Embedding") return {options_.batch_size, Tokens()};
    if (reader.op != "FullyConnected") return {options_.batch_size, kChannels, image, image};
    const Node& weight = symbol_.node(reader.inputs.size() > 1 ? reader.inputs[1].node : reader.inputs[0].node);
    const Result<Dims> shape = TupleOf(weight, "__shape__", {});
    if (!shape || shape->size() != 2 || (*shape)[1] < 1) return {};
    return {options_.batch_size, (*shape)[1]};
  }

  // A network that is unrolled has as many steps as its first cut along time.
  std::int64_t Tokens() const {
    if (options_.seq_len) return *options_.seq_len;
    for (const Node& node : symbol_.nodes) {
      if (node.op != "SliceChannel" && node.op != "split") continue;
      const Result<bool> squeezes = FlagOf(node, "squeeze_axis", false);
      const Result<std::int64_t> steps = IntegerOf(node, "num_outputs", kTokens);
      if (squeezes && *squeezes && steps && *steps > 0) return *steps;
    }
    return kTokens;
  }

  Symbol& symbol_;
  const ModelOptions& options_;
  const std::vector<Reader> readers_;
  std::vector<Role> roles_;
  std::vector<int> labels_;
  bool has_tokens_ = false;
};

bool HasLoss(const Symbol& symbol) {
  return std::any_of(symbol.heads.begin(), symbol.heads.end(),
                     [&](Entry head) { return symbol.node(head.node).op == "SoftmaxOutput"; });
}

void AddLoss(Symbol& symbol) {
  const int label = static_cast<int>(symbol.nodes.size());
  symbol.nodes.push_back({.name = "softmax_label"});
  symbol.nodes.push_back({.op = "SoftmaxOutput", .name = "softmax", .inputs = {symbol.heads.front(), {label, 0}}});
  symbol.heads.front() = {label + 1, 0};
}

}  // namespace

Result<std::vector<Role>> BindInputs(Symbol& symbol, const ModelOptions& options) {
  if (!options.inference && !HasLoss(symbol)) AddLoss(symbol);
  return Binder(symbol, options).Bind();
}

}  // namespace ebbtide::model::mxnet
