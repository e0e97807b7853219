// Goes through the nodes backwards, by the words of the operators' table, and sums where gradients meet.
#include "model/mxnet/gradient.h"

#include <algorithm>
#include <set>

namespace ebbtide::model::mxnet {
namespace {

// MXNET_EXEC_INPLACE_GRAD_SUM_CAP: from so many gradients on, they are summed two at a time.
constexpr std::size_t kSumsTwoAtATime = 8;
constexpr Entry kNone = {-1, 0};

// One word of Operator::reads or yields: 'g', 'i' or 'o', and a number or '*'.
struct Word {
  char what = 0;
  int number = 0;  // -1: all
};

std::vector<Word> WordsOf(std::string_view text) {
  std::vector<Word> words;
  for (std::size_t at = 0; at + 1 < text.size(); at += 3)
    words.push_back({text[at], text[at + 1] == '*' ? -1 : text[at + 1] - '0'});
  return words;
}

class GradientPass {
 public:
  explicit GradientPass(Symbol& symbol)
      : symbol_(symbol), forward_(ExecutionOrder(symbol)), arrived_(symbol.nodes.size()) {
    for (std::size_t i = 0; i < symbol.nodes.size(); ++i) arrived_[i].resize(symbol.nodes[i].shapes.size());
  }

  Status Run(const std::vector<int>& variables) {
    for (auto node = forward_.rbegin(); node != forward_.rend(); ++node) {
      if (symbol_.node(*node).is_variable()) continue;
      if (const Status status = Differentiate(*node); !status) return Within(Describe(symbol_, *node), status.error());
    }
    std::set<Entry> taken;
    for (const int variable : variables) {
      Entry gradient = Sum(arrived_[static_cast<std::size_t>(variable)][0], symbol_.node(variable).shapes[0]);
      if (!taken.insert(gradient).second) {
        gradient = Add(
            {.op = kCopy, .inputs = {gradient}, .gradient_of = variable, .shapes = {symbol_.node(variable).shapes[0]}});
      }
      symbol_.heads.push_back(gradient);
    }
    return {};
  }

 private:
  Entry Add(Node node) {
    if (node.name.empty()) node.name = node.op;
    symbol_.nodes.push_back(std::move(node));
    return {static_cast<int>(symbol_.nodes.size()) - 1, 0};
  }

  // What stands for gradients that were never made is dropped where others are there.
  Entry Sum(std::vector<Entry> parts, const Dims& shape) {
    const auto is_made = [&](Entry part) { return symbol_.node(part.node).op != kNoGradient; };
    if (std::any_of(parts.begin(), parts.end(), is_made))
      std::erase_if(parts, [&](Entry part) { return !is_made(part); });
    if (parts.empty()) return Add({.op = kNoGradient, .gradient_of = forward_.back(), .shapes = {shape}});
    if (parts.size() == 1) return parts.front();
    const int owner = symbol_.node(parts.front().node).gradient_of;
    if (parts.size() < kSumsTwoAtATime) {
      return Add({.op = kSum, .inputs = std::move(parts), .gradient_of = owner, .shapes = {shape}});
    }
    Entry sum = parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i) {
      // Gradients are summed in the order in which they are made.
      if (parts[i - 1].node != parts[i].node) symbol_.node(parts[i].node).after.push_back(sum.node);
      sum = Add({.op = kSumOfTwo, .inputs = {sum, parts[i]}, .gradient_of = owner, .shapes = {shape}});
    }
    return Add({.op = kCopy, .inputs = {sum}, .gradient_of = owner, .shapes = {shape}});
  }

  void Arrive(Entry at, Entry gradient) {
    arrived_[static_cast<std::size_t>(at.node)][static_cast<std::size_t>(at.output)].push_back(gradient);
  }

  Status Differentiate(int number) {
    const std::size_t outputs = symbol_.node(number).shapes.size();
    std::vector<Entry> gradients(outputs, kNone);
    const auto gradient_of = [&](std::size_t output) {
      if (gradients[output] == kNone) {
        gradients[output] =
            Sum(arrived_[static_cast<std::size_t>(number)][output], symbol_.node(number).shapes[output]);
      }
      return gradients[output];
    };
    const Operator& op = *FindOperator(symbol_.node(number));
    const std::vector<Entry> inputs = symbol_.node(number).inputs;
    if (op.backward.empty() || inputs.empty()) return {};
    if (op.backward == "=") {
      const Entry gradient = gradient_of(0);
      for (const Entry input : inputs) Arrive(input, gradient);
      return {};
    }
    Node backward{
        .op = std::string(op.backward), .name = symbol_.node(number).name + "_backward", .gradient_of = number};
    for (const Word word : WordsOf(op.reads)) {
      const std::size_t all = word.what == 'i' ? inputs.size() : outputs;
      const std::size_t begin = word.number < 0 ? 0 : static_cast<std::size_t>(word.number);
      const std::size_t end = word.number < 0 ? all : std::min(begin + 1, all);
      for (std::size_t i = begin; i < end; ++i) {
        backward.inputs.push_back(word.what == 'i'   ? inputs[i]
                                  : word.what == 'o' ? Entry{number, static_cast<int>(i)}
                                                     : gradient_of(i));
      }
    }
    std::vector<std::size_t> yields;
    for (const Word word : WordsOf(op.yields)) {
      const std::size_t begin = word.number < 0 ? 0 : static_cast<std::size_t>(word.number);
      const std::size_t end = word.number < 0 ? inputs.size() : std::min(begin + 1, inputs.size());
      for (std::size_t i = begin; i < end; ++i) yields.push_back(i);
    }
    for (const std::size_t input : yields) backward.shapes.push_back(symbol_.shape(inputs[input]));
    total_ += backward.shapes.size();
    if (total_ > kMostOutputs) return Fail("expected at most {} gradients in all", kMostOutputs);
    const Entry made = Add(std::move(backward));
    for (std::size_t i = 0; i < yields.size(); ++i) Arrive(inputs[yields[i]], {made.node, static_cast<int>(i)});
    return {};
  }

  Symbol& symbol_;
  const std::vector<int> forward_;
  std::vector<std::vector<std::vector<Entry>>> arrived_;  // by node and output of the forward pass
  std::size_t total_ = 0;
};

}  // namespace

Status AddGradient(Symbol& symbol, const std::vector<int>& variables) { return GradientPass(symbol).Run(variables); }

std::vector<int> ExecutionOrder(const Symbol& symbol) {
  struct Step {
    int node = 0;
    std::size_t next = 0;
  };
  std::vector<int> order;
  std::vector<bool> is_seen(symbol.nodes.size());
  std::vector<Step> path;
  const auto enter = [&](int node) {
    if (is_seen[static_cast<std::size_t>(node)]) return;
    is_seen[static_cast<std::size_t>(node)] = true;
    path.push_back({node});
  };
  for (const Entry head : symbol.heads) {
    enter(head.node);
    while (!path.empty()) {
      const int number = path.back().node;
      const Node& node = symbol.node(number);
      const std::size_t next = path.back().next++;
      if (next < node.inputs.size()) {
        enter(node.inputs[next].node);
      } else if (next < node.inputs.size() + node.after.size()) {
        enter(node.after[next - node.inputs.size()]);
      } else {
        order.push_back(number);
        path.pop_back();
      }
    }
  }
  return order;
}

}  // namespace ebbtide::model::mxnet
