// A table of formulas for simple operators and a function for each of the others, then the optimizer's kernels.
#include "model/tensorflow/gradient.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

namespace ebbtide::model::tensorflow {
namespace {

constexpr std::array<const char*, 7> kWithAttributes = {
    "Conv2DBackprop",  "DepthwiseConv2dNativeBackprop", "MaxPoolGrad", "AvgPoolGrad", "BiasAddGrad", "LeakyReluGrad",
    "StridedSliceGrad"};

// Rows of the gradient of a variable, and which they are.
struct Rows {
  ValueId places = kNone, values = kNone;
};

class GradientPass {
 public:
  explicit GradientPass(Flat& flat)
      : flat_(flat), build_(flat), needs_(flat.values.size()), arrived_(flat.values.size()) {}

  Status Run(ValueId loss, const std::string& optimizer) {
    MarkNeeded();
    const std::vector<int> order = NodesBefore(loss);
    if (!Needs(loss)) return Fail("the loss depends on no variable that is trained");
    build_.At("gradients/ones");
    Arrive(loss, build_.Make("Fill", {build_.Integers(flat_.value(loss).shape), build_.Real(1)}));
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      Differentiate(*node);
      if (build_.error()) return tl::unexpected(*build_.error());
    }
    Update(optimizer);
    if (build_.error()) return tl::unexpected(*build_.error());
    return {};
  }

 private:
  bool Needs(ValueId id) const {
    return static_cast<std::size_t>(id) < needs_.size() && needs_[static_cast<std::size_t>(id)];
  }

  // Nodes stand behind what they read, but for those that were constants and became variables.
  void MarkNeeded() {
    for (std::size_t i = 0; i < flat_.values.size(); ++i) {
      const Value& value = flat_.values[i];
      if (value.variable == kNone) continue;
      const Variable& variable = flat_.variables[static_cast<std::size_t>(value.variable)];
      needs_[i] = variable.is_trainable && IsFloating(variable.dtype);
    }
    for (const FlatNode& node : flat_.nodes) {
      if (node.op == "StopGradient" || node.outputs.empty()) continue;
      if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return Needs(input); })) continue;
      for (const ValueId output : node.outputs) {
        const Value& value = flat_.value(output);
        needs_[static_cast<std::size_t>(output)] = value.type.kind == Kind::kNumbers && IsFloating(value.type.dtype);
      }
    }
  }

  std::vector<int> NodesBefore(ValueId loss) const {
    std::vector<bool> is_needed(flat_.nodes.size());
    std::vector<int> open = {flat_.value(loss).node}, order;
    while (!open.empty()) {
      const int number = open.back();
      open.pop_back();
      if (number == kNone || is_needed[static_cast<std::size_t>(number)]) continue;
      is_needed[static_cast<std::size_t>(number)] = true;
      for (const ValueId input : flat_.node(number).inputs) open.push_back(flat_.value(input).node);
    }
    for (std::size_t i = 0; i < is_needed.size(); ++i) {
      if (is_needed[i]) order.push_back(static_cast<int>(i));
    }
    return order;
  }

  void Arrive(ValueId at, ValueId gradient) {
    if (gradient != kNone) arrived_[static_cast<std::size_t>(at)].push_back(gradient);
  }
  ValueId Sum(ValueId at) {
    const std::vector<ValueId>& parts = arrived_[static_cast<std::size_t>(at)];
    if (parts.size() <= 1) return parts.empty() ? kNone : parts[0];
    return build_.Make("AddN", parts);
  }

  // ---- One node.
  struct At {
    std::string op;
    const Attributes* attributes = nullptr;
    std::vector<ValueId> inputs, outputs, gradients;  // of outputs; kNone: none arrived
    ValueId g = kNone;                                // of the first
  };

  void Differentiate(int number) {
    At at;
    {
      const FlatNode& node = flat_.node(number);
      at.op = node.op;
      at.attributes = node.attributes;
      at.inputs = node.inputs;
      at.outputs = node.outputs;
      build_.At("gradients/" + node.name, number);
    }
    bool any = false;
    for (const ValueId output : at.outputs) {
      at.gradients.push_back(Needs(output) ? Sum(output) : kNone);
      any = any || at.gradients.back() != kNone;
    }
    if (!any || at.op == "ReadVariableOp" || at.op == "StopGradient") return;
    at.g = at.gradients[0];
    if (DifferentiateByFormula(at) || DifferentiateSpecially(at) || build_.error()) return;
    build_.Fail(Describe(flat_.node(number)) + ": an operator whose gradient is not known");
  }

  bool IsWanted(const At& at, std::size_t input) const { return input < at.inputs.size() && Needs(at.inputs[input]); }

  bool DifferentiateByFormula(const At& at) {
    const auto& formulas = GradientFormulas();
    const auto found = std::find_if(formulas.begin(), formulas.end(), [&](const auto& row) { return row.op == at.op; });
    if (found == formulas.end() || at.g == kNone) return false;
    const std::string_view texts[] = {found->first, found->second, found->third};
    for (std::size_t i = 0; i < 3; ++i) {
      if (texts[i].empty() || !IsWanted(at, i)) continue;
      std::string_view rest = texts[i];
      Arrive(at.inputs[i], Unbroadcast(Evaluate(at, rest), at.inputs[i]));
    }
    return true;
  }

  // Formulas are ours, so nesting is as deep as the table.
  ValueId Evaluate(const At& at, std::string_view& text) {
    const std::size_t end = text.find_first_of("(),");
    const std::string word(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), word.size()));
    if (text.empty() || text[0] != '(') return Operand(at, word);
    std::vector<ValueId> operands;
    while (text[0] != ')') {
      text.remove_prefix(1);
      operands.push_back(Evaluate(at, text));
    }
    text.remove_prefix(1);
    if (word == "Total") return Reduced(operands[0], {-1}, true);
    const bool shares = std::any_of(kWithAttributes.begin(), kWithAttributes.end(),
                                    [&](const char* prefix) { return word.starts_with(prefix); });
    return build_.Make(word, std::move(operands), shares ? *at.attributes : Attributes{});
  }

  ValueId Operand(const At& at, const std::string& word) {
    if (word == "g") return at.g;
    if (word == "y") return at.outputs[0];
    const char letter = word[0];
    const bool is_shape = letter >= 'A' && letter <= 'D';
    if (is_shape || (letter >= 'a' && letter <= 'd')) {
      const auto input = static_cast<std::size_t>(letter - (is_shape ? 'A' : 'a'));
      if (input >= at.inputs.size()) return kNone;
      return is_shape ? build_.Integers(flat_.value(at.inputs[input]).shape) : at.inputs[input];
    }
    double number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number);
    return build_.Real(number);
  }

  ValueId Reduced(ValueId value, Dims axes, bool keeps) {
    return build_.Make("Sum", {value, build_.Integers(std::move(axes))}, {{"keep_dims", Attribute(keeps)}});
  }

  // Of a gradient as large as the result: that of an operand.
  ValueId Unbroadcast(ValueId gradient, ValueId operand) {
    if (gradient == kNone) return kNone;
    const Dims from = flat_.value(gradient).shape, to = flat_.value(operand).shape;
    if (from == to || from.size() < to.size()) return gradient;
    Dims axes;
    const std::size_t more = from.size() - to.size();
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (i < more || (to[i - more] == 1 && from[i] != 1)) axes.push_back(static_cast<std::int64_t>(i));
    }
    if (!axes.empty()) gradient = Reduced(gradient, std::move(axes), false);
    return gradient == kNone ? kNone : build_.Make("Reshape", {gradient, build_.Integers(to)});
  }

  bool DifferentiateSpecially(const At& at) {
    using Rule = void (GradientPass::*)(const At&);
    static const std::unordered_map<std::string_view, Rule> rules = {
        {"MatMul", &GradientPass::OfProduct},
        {"BatchMatMul", &GradientPass::OfProduct},
        {"BatchMatMulV2", &GradientPass::OfProduct},
        {"BatchMatMulV3", &GradientPass::OfProduct},
        {"Einsum", &GradientPass::OfEinsum},
        {"AddN", &GradientPass::OfSum},
        {"ConcatV2", &GradientPass::OfConcat},
        {"Split", &GradientPass::OfSplit},
        {"Pack", &GradientPass::OfPack},
        {"TensorListStack", &GradientPass::OfPack},
        {"Unpack", &GradientPass::OfUnpack},
        {"TensorListFromTensor", &GradientPass::OfUnpack},
        {"Slice", &GradientPass::OfSlice},
        {"Pad", &GradientPass::OfPad},
        {"PadV2", &GradientPass::OfPad},
        {"Sum", &GradientPass::OfReduction},
        {"Mean", &GradientPass::OfReduction},
        {"Transpose", &GradientPass::OfTranspose},
        {"GatherV2", &GradientPass::OfGather},
        {"Gather", &GradientPass::OfGather},
        {"ResourceGather", &GradientPass::OfGather},
        {"FusedBatchNorm", &GradientPass::OfBatchNorm},
        {"FusedBatchNormV2", &GradientPass::OfBatchNorm},
        {"FusedBatchNormV3", &GradientPass::OfBatchNorm},
        {"SparseSoftmaxCrossEntropyWithLogits", &GradientPass::OfCrossEntropy},
        {"SoftmaxCrossEntropyWithLogits", &GradientPass::OfCrossEntropy},
        {"Cast", &GradientPass::OfCast},
        {"CudnnRNNV3", &GradientPass::OfRecurrent},
        {"BroadcastTo", &GradientPass::OfBroadcast},
    };
    const auto found = rules.find(at.op);
    if (found == rules.end()) return false;
    (this->*found->second)(at);
    return true;
  }

  void OfProduct(const At& at) {
    const bool is_plain = at.op == "MatMul";
    const char *left = is_plain ? "transpose_a" : "adj_x", *right = is_plain ? "transpose_b" : "adj_y";
    const auto* a_turned = AttributeAs<bool>(*at.attributes, left);
    const auto* b_turned = AttributeAs<bool>(*at.attributes, right);
    const bool ta = a_turned && *a_turned, tb = b_turned && *b_turned;
    const auto product = [&](ValueId a, ValueId b, bool turn_a, bool turn_b) {
      return build_.Make(at.op, {a, b}, {{left, Attribute(turn_a)}, {right, Attribute(turn_b)}});
    };
    const ValueId a = at.inputs[0], b = at.inputs[1];
    if (IsWanted(at, 0)) Arrive(a, Unbroadcast(ta ? product(b, at.g, tb, true) : product(at.g, b, false, !tb), a));
    if (IsWanted(at, 1)) Arrive(b, Unbroadcast(tb ? product(at.g, a, true, ta) : product(a, at.g, !ta, false), b));
  }

  void OfEinsum(const At& at) {
    const auto* equation = AttributeAs<std::string>(*at.attributes, "equation");
    const std::size_t comma = equation->find(','), arrow = equation->find("->");
    if (comma == std::string::npos || arrow == std::string::npos || at.inputs.size() != 2)
      return build_.Fail("Einsum: its gradient is known for two operands only");
    const std::string terms[] = {equation->substr(0, comma), equation->substr(comma + 1, arrow - comma - 1),
                                 equation->substr(arrow + 2)};
    for (std::size_t i = 0; i < 2; ++i) {
      if (!IsWanted(at, i)) continue;
      const std::string wanted = terms[2] + "," + terms[1 - i] + "->" + terms[i];
      Arrive(at.inputs[i], build_.Make("Einsum", {at.g, at.inputs[1 - i]}, {{"equation", Attribute(wanted)}}));
    }
  }

  void OfSum(const At& at) {
    for (const ValueId input : at.inputs) {
      if (Needs(input)) Arrive(input, at.g);
    }
  }

  void OfConcat(const At& at) {
    const ValueId axis_value = at.inputs.back();
    const Dims whole = flat_.value(at.outputs[0]).shape;
    std::int64_t axis = flat_.value(axis_value).known->integer(0);
    if (axis < 0) axis += static_cast<std::int64_t>(whole.size());
    Dims begin(whole.size());
    for (std::size_t i = 0; i + 1 < at.inputs.size(); ++i) {
      const Dims part = flat_.value(at.inputs[i]).shape;
      if (IsWanted(at, i))
        Arrive(at.inputs[i], build_.Make("Slice", {at.g, build_.Integers(begin), build_.Integers(part)}));
      begin[static_cast<std::size_t>(axis)] += part[static_cast<std::size_t>(axis)];
    }
  }

  // Zeros where nobody made a gradient.
  ValueId GradientOr0(const At& at, std::size_t output) {
    if (at.gradients[output] != kNone) return at.gradients[output];
    return build_.Make("ZerosLike", {at.outputs[output]});
  }

  void OfSplit(const At& at) {
    std::vector<ValueId> parts;
    for (std::size_t i = 0; i < at.outputs.size(); ++i) parts.push_back(GradientOr0(at, i));
    parts.push_back(at.inputs[0]);
    if (IsWanted(at, 1)) Arrive(at.inputs[1], build_.Make("ConcatV2", std::move(parts)));
  }

  void OfPack(const At& at) {
    const auto* axis = AttributeAs<std::int64_t>(*at.attributes, "axis");
    const std::vector<ValueId> parts =
        build_.MakeAll("Unpack", {at.g}, {{"axis", Attribute(axis && at.op == "Pack" ? *axis : std::int64_t{0})}});
    for (std::size_t i = 0; i < at.inputs.size() && i < parts.size(); ++i) {
      if (IsWanted(at, i)) Arrive(at.inputs[i], parts[i]);
    }
  }

  void OfUnpack(const At& at) {
    const bool is_list = at.op == "TensorListFromTensor";
    const auto* axis = AttributeAs<std::int64_t>(*at.attributes, "axis");
    std::vector<ValueId> parts;
    for (std::size_t i = is_list ? 1 : 0; i < at.outputs.size(); ++i) parts.push_back(GradientOr0(at, i));
    Arrive(at.inputs[0],
           build_.Make("Pack", std::move(parts), {{"axis", Attribute(axis && !is_list ? *axis : std::int64_t{0})}}));
  }

  void OfSlice(const At& at) {
    const Dims from = flat_.value(at.inputs[0]).shape, to = flat_.value(at.outputs[0]).shape;
    const Array& begin = *flat_.value(at.inputs[1]).known;
    Dims paddings;
    for (std::size_t i = 0; i < from.size(); ++i) {
      paddings.push_back(begin.integer(i));
      paddings.push_back(from[i] - to[i] - begin.integer(i));
    }
    Arrive(at.inputs[0], build_.Make("Pad", {at.g, build_.Integers(std::move(paddings))}));
  }

  void OfPad(const At& at) {
    const Array& paddings = *flat_.value(at.inputs[1]).known;
    const Dims size = flat_.value(at.inputs[0]).shape;
    Dims begin;
    for (std::size_t i = 0; i < size.size(); ++i) begin.push_back(paddings.integer(2 * i));
    Arrive(at.inputs[0], build_.Make("Slice", {at.g, build_.Integers(std::move(begin)), build_.Integers(size)}));
  }

  void OfReduction(const At& at) {
    const Dims from = flat_.value(at.inputs[0]).shape;
    Dims kept = from;
    const Array& axes = *flat_.value(at.inputs[1]).known;
    const auto count = CountElements(axes.shape).value_or(0);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto axis = NormalAxis(axes.integer(static_cast<std::size_t>(i)), from.size());
      if (axis) kept[static_cast<std::size_t>(*axis)] = 1;
    }
    const ValueId row = build_.Make("Reshape", {at.g, build_.Integers(kept)});
    ValueId gradient = build_.Make("BroadcastTo", {row, build_.Integers(from)});
    if (at.op == "Mean") {
      const auto elements = static_cast<double>(CountElements(from).value_or(1));
      const auto results = static_cast<double>(CountElements(kept).value_or(1));
      gradient = build_.Make("RealDiv", {gradient, build_.Real(elements / std::max(results, 1.0))});
    }
    Arrive(at.inputs[0], gradient);
  }

  void OfBroadcast(const At& at) { Arrive(at.inputs[0], Unbroadcast(at.g, at.inputs[0])); }

  void OfTranspose(const At& at) {
    const Array& order = *flat_.value(at.inputs[1]).known;
    Dims inverse(flat_.value(at.outputs[0]).shape.size());
    for (std::size_t i = 0; i < inverse.size(); ++i)
      inverse[static_cast<std::size_t>(order.integer(i))] = static_cast<std::int64_t>(i);
    Arrive(at.inputs[0], build_.Make("Transpose", {at.g, build_.Integers(std::move(inverse))}));
  }

  // Rows of a variable have rows of a gradient; of anything else, the rows are added up.
  void OfGather(const At& at) {
    const Value& source = flat_.value(at.inputs[0]);
    const int variable = source.variable;
    const Dims table = variable == kNone ? source.shape : flat_.variables[static_cast<std::size_t>(variable)].shape;
    const Dims& places = flat_.value(at.inputs[1]).shape;
    const std::int64_t rows = CountElements(places).value_or(0);
    Dims flat_shape = {rows};
    flat_shape.insert(flat_shape.end(), table.begin() + 1, table.end());
    if (CountElements(flat_shape) != CountElements(flat_.value(at.g).shape))
      return build_.Fail("GatherV2: its gradient is known along the first axis only");
    const ValueId values = build_.Make("Reshape", {at.g, build_.Integers(flat_shape)});
    const ValueId numbers = build_.Make("Reshape", {at.inputs[1], build_.Integers({rows})});
    if (variable != kNone) {
      rows_[variable].push_back({numbers, values});
    } else {
      Arrive(at.inputs[0], build_.Make("UnsortedSegmentSum", {values, numbers, build_.Integer(table[0])}));
    }
  }

  void OfBatchNorm(const At& at) {
    const bool is_third = at.op == "FusedBatchNormV3";
    std::vector<ValueId> inputs = {at.g, at.inputs[0], at.inputs[1], at.outputs[3], at.outputs[4]};
    if (is_third) inputs.push_back(at.outputs[5]);
    const std::string op = is_third ? "FusedBatchNormGradV3" : "FusedBatchNormGrad";
    const std::vector<ValueId> made = build_.MakeAll(op, std::move(inputs), *at.attributes);
    for (std::size_t i = 0; i < 3 && i < made.size(); ++i) {
      if (IsWanted(at, i)) Arrive(at.inputs[i], made[i]);
    }
  }

  // The kernel has made the gradient with the loss.
  void OfCrossEntropy(const At& at) {
    const ValueId each = build_.Make("ExpandDims", {at.g, build_.Integer(-1)});
    Arrive(at.inputs[0], build_.Make("Mul", {each, at.outputs[1]}));
  }

  void OfCast(const At& at) {
    const bool is_half = flat_.value(at.inputs[0]).type.dtype == DType::kFloat16;
    Arrive(at.inputs[0], build_.Make("Cast", {at.g}, {{"DstT", Attribute(TypeAttribute{is_half ? 19 : 1})}}));
  }

  void OfRecurrent(const At& at) {
    std::vector<ValueId> inputs(at.inputs.begin(), at.inputs.begin() + 4);
    inputs.insert(inputs.end(), at.outputs.begin(), at.outputs.begin() + 3);
    for (std::size_t i = 0; i < 3; ++i) inputs.push_back(GradientOr0(at, i));
    inputs.insert(inputs.end(), {at.outputs[3], at.outputs[4]});
    const std::vector<ValueId> made = build_.MakeAll("CudnnRNNBackpropV3", std::move(inputs), *at.attributes);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (IsWanted(at, i)) Arrive(at.inputs[i], made[i]);
    }
  }

  // ---- The update: one kernel for each variable, which works in place.
  void Update(const std::string& optimizer) {
    struct Kernel {
      std::string_view optimizer;
      const char *dense, *sparse;
      int states;
    };
    static constexpr Kernel kKernels[] = {
        {"sgd", "ResourceApplyGradientDescent", "ResourceScatterAdd", 0},
        {"momentum", "ResourceApplyKerasMomentum", "ResourceSparseApplyKerasMomentum", 1},
        {"adam", "ResourceApplyAdam", "ResourceScatterAdd", 2},
        {"adamw", "ResourceApplyAdam", "ResourceScatterAdd", 2},
        {"rmsprop", "ResourceApplyRMSProp", "ResourceScatterAdd", 1},
        {"adagrad", "ResourceApplyAdagradV2", "ResourceSparseApplyAdagradV2", 1},
    };
    if (optimizer == "none") return;
    const auto* kernel = std::find_if(std::begin(kKernels), std::end(kKernels),
                                      [&](const auto& row) { return row.optimizer == optimizer; });
    if (kernel == std::end(kKernels)) {
      return build_.Fail(
          "--optimizer: expected one that is modelled for TensorFlow: sgd, momentum, adam, adamw, rmsprop, "
          "adagrad or none; found " +
          optimizer);
    }
    // Values of one variable may have been read several times.
    std::vector<std::vector<ValueId>> parts(flat_.variables.size());
    for (std::size_t i = 0; i < arrived_.size(); ++i) {
      const Value& value = flat_.values[i];
      if (value.variable == kNone || value.type.kind != Kind::kNumbers) continue;
      auto& all = parts[static_cast<std::size_t>(value.variable)];
      all.insert(all.end(), arrived_[i].begin(), arrived_[i].end());
    }
    const int variables = static_cast<int>(flat_.variables.size());
    for (int i = 0; i < variables; ++i) {
      const Variable variable = flat_.variables[static_cast<std::size_t>(i)];
      const std::vector<ValueId>& dense = parts[static_cast<std::size_t>(i)];
      const auto rows = rows_.find(i);
      if (dense.empty() && rows == rows_.end()) continue;
      build_.At("update/" + variable.name);
      std::vector<ValueId> inputs = {build_.Handle(i)};
      for (int k = 0; k < kernel->states; ++k) {
        const int state = static_cast<int>(flat_.variables.size());
        flat_.variables.push_back({.name = variable.name + "/state" + std::to_string(k),
                                   .dtype = variable.dtype,
                                   .shape = variable.shape,
                                   .is_trainable = false});
        inputs.push_back(build_.Handle(state));
      }
      if (!dense.empty()) {
        std::vector<ValueId> all = inputs;
        all.push_back(dense.size() == 1 ? dense[0] : build_.Make("AddN", dense));
        build_.MakeAll(kernel->dense, std::move(all));
      }
      if (rows == rows_.end()) continue;
      for (const Rows& part : rows->second) {
        std::vector<ValueId> all = inputs;
        all.insert(all.end(), {part.places, part.values});
        build_.MakeAll(kernel->sparse, std::move(all));
      }
    }
  }

  Flat& flat_;
  FlatBuilder build_;
  std::vector<bool> needs_;                    // by value of the forward pass
  std::vector<std::vector<ValueId>> arrived_;  // by value of the forward pass
  std::map<int, std::vector<Rows>> rows_;      // by variable
};

}  // namespace

Status AddTraining(Flat& flat, ValueId loss, const std::string& optimizer) {
  return GradientPass(flat).Run(loss, optimizer);
}

}  // namespace ebbtide::model::tensorflow
