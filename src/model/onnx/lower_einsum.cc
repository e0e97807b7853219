// Einsum of two operands, as torch does it: both folded to three axes, one bmm, and back. "bhid,bhjd->bhij" has the
// batch axes b and h, sums over d, and keeps i of the left and j of the right operand.
#include <algorithm>
#include <array>
#include <cctype>

#include "model/onnx/lower.h"
#include "model/ops.h"

namespace ebbtide::model::onnx {
namespace {

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

struct Equation {
  std::string left, right, out;
  std::string batch, summed, own_left, own_right;  // the axes by what becomes of them

  std::string made() const { return batch + own_left + own_right; }  // of the product, before it is ordered
};

bool AreDistinctLetters(std::string labels) {
  std::ranges::sort(labels);
  return std::ranges::all_of(labels, [](unsigned char c) { return std::isalpha(c) != 0; }) &&
         std::ranges::adjacent_find(labels) == labels.end();
}

// nullopt: not of the form that bmm can do.
std::optional<Equation> ReadEquation(std::string text) {
  std::erase(text, ' ');
  const std::size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return std::nullopt;
  Equation equation;
  equation.left = text.substr(0, comma);
  equation.right = text.substr(comma + 1, arrow - comma - 1);
  equation.out = text.substr(arrow + 2);
  for (const std::string& labels : {equation.left, equation.right, equation.out}) {
    if (!AreDistinctLetters(labels)) return std::nullopt;
  }
  for (char label : equation.left + equation.right) {
    const bool in_both = Has(equation.left, label) && Has(equation.right, label), kept = Has(equation.out, label);
    if (!in_both && !kept) return std::nullopt;
    std::string& axes = in_both ? (kept ? equation.batch : equation.summed)
                                : (Has(equation.left, label) ? equation.own_left : equation.own_right);
    if (!Has(axes, label)) axes += label;
  }
  const std::string made = equation.made();
  const bool complete = made.size() == equation.out.size() &&
                        std::ranges::all_of(equation.out, [&](char label) { return Has(made, label); });
  return complete ? std::optional(equation) : std::nullopt;
}

// Sizes of axes by their letters.
class Sizes {
 public:
  // False where a letter already has another size, or the labels are not one per axis.
  bool Add(const std::string& labels, const Dims& shape) {
    if (labels.size() != shape.size()) return false;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      std::int64_t& size = size_[static_cast<unsigned char>(labels[i])];
      if (size != 0 && size != shape[i]) return false;
      size = shape[i];
    }
    return true;
  }
  Dims Of(const std::string& labels) const {
    Dims sizes;
    for (char label : labels) sizes.push_back(size_[static_cast<unsigned char>(label)]);
    return sizes;
  }
  std::int64_t Product(const std::string& labels) const { return ElementCount(Of(labels)); }

 private:
  std::array<std::int64_t, 256> size_{};
};

TensorId Reordered(Builder& b, TensorId x, const std::string& from, const std::string& to) {
  std::vector<int> order;
  for (char label : to) order.push_back(static_cast<int>(from.find(label)));
  return std::ranges::is_sorted(order) ? x : op::Permute(b, x, order);
}

Status Einsum(Call& call) {
  const auto equation = ReadEquation(call.Text("equation", ""));
  if (!equation) return call.Wrong("equation: expected a product of two tensors, as \"bik,bkj->bij\"");
  EBB_ASSIGN_OR_RETURN(TensorId x, call.Tensor(0));
  EBB_ASSIGN_OR_RETURN(TensorId y, call.Tensor(1));
  Builder& b = call.b;
  const Equation& e = *equation;
  Sizes sizes;
  if (!sizes.Add(e.left, b.shape(x)) || !sizes.Add(e.right, b.shape(y))) {
    return call.Wrong(
        fmt::format("{} and {}: expected shapes that fit the equation", ShapeText(b.shape(x)), ShapeText(b.shape(y))));
  }
  if (!CountElements(sizes.Of(e.made()))) return call.Wrong("equation: expected at most 2^48 elements in the result");
  const std::int64_t batch = sizes.Product(e.batch), summed = sizes.Product(e.summed);
  TensorId rows = op::Reshape(b, Reordered(b, x, e.left, e.batch + e.own_left + e.summed),
                              {batch, sizes.Product(e.own_left), summed});
  TensorId columns = op::Reshape(b, Reordered(b, y, e.right, e.batch + e.summed + e.own_right),
                                 {batch, summed, sizes.Product(e.own_right)});
  TensorId product = op::Reshape(b, op::Bmm(b, rows, columns), sizes.Of(e.made()));
  return call.Set(0, Reordered(b, product, e.made(), e.out));
}

constexpr OperatorRow kRules[] = {{"Einsum", 2, 2, Einsum}};

}  // namespace

std::span<const OperatorRow> EinsumRules() { return kRules; }

}  // namespace ebbtide::model::onnx
