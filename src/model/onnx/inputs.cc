// Tells the role of a symbolic size, and makes the input tensors.
#include "model/onnx/inputs.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/json_text.h"

namespace ebbtide::model::onnx {
namespace {

enum class Role { kBatch, kTokens, kPixels, kUnknown };

bool Mentions(std::string_view symbol, std::initializer_list<std::string_view> words) {
  std::string lower(symbol);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(words, [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

Role RoleOf(const InputTensor& input, std::size_t axis) {
  const std::string& symbol = input.shape[axis].symbol;
  if (symbol == "N" || Mentions(symbol, {"batch"})) return Role::kBatch;
  if (Mentions(symbol, {"seq", "length", "token", "time"})) return Role::kTokens;
  if (Mentions(symbol, {"height", "width"})) return Role::kPixels;
  if (axis == 0) return Role::kBatch;
  if (!IsFloating(input.dtype) || input.shape.size() <= 3) return Role::kTokens;
  return axis >= 2 ? Role::kPixels : Role::kUnknown;
}

const char* FlagOf(Role role) {
  switch (role) {
    case Role::kBatch: return "--batch-size";
    case Role::kTokens: return "--seq-len";
    case Role::kPixels: return "--image-size";
    case Role::kUnknown: break;
  }
  return "";
}

class InputMaker {
 public:
  explicit InputMaker(Lowering& state) : state_(state), options_(state.options) {}

  Status Make() {
    EBB_RETURN_IF_ERROR(CheckOptions());
    for (const InputTensor& input : state_.file.inputs) {
      Dims shape;
      for (std::size_t axis = 0; axis < input.shape.size(); ++axis) {
        EBB_ASSIGN_OR_RETURN(const std::int64_t size, SizeOf(input, axis));
        shape.push_back(size);
      }
      if (!CountElements(shape)) return Fail("{}: {}: expected at most 2^48 elements", Name(input), ShapeText(shape));
      state_.values[input.value].tensor = state_.b.Input(state_.file.values[input.value], shape, input.dtype);
    }
    EBB_RETURN_IF_ERROR(CheckFixedBatch());
    EBB_RETURN_IF_ERROR(CheckFixed(Role::kTokens, options_.seq_len));
    return CheckFixed(Role::kPixels, options_.image_size);
  }

 private:
  std::string Name(const InputTensor& input) const { return "input " + Quoted(state_.file.values[input.value]); }

  Status CheckOptions() const {
    if (options_.batch_size <= 0) return Fail("--batch-size {}: expected a positive number", options_.batch_size);
    if (options_.classes) return Fail("--classes does not apply to an ONNX file");
    if (!options_.widths.empty()) return Fail("--widths does not apply to an ONNX file");
    for (const auto& size : {options_.image_size, options_.seq_len}) {
      if (size && *size <= 0) return Fail("--image-size, --seq-len {}: expected a positive number", *size);
    }
    return {};
  }

  std::optional<std::int64_t> Chosen(Role role) const {
    switch (role) {
      case Role::kBatch: return options_.batch_size;
      case Role::kTokens: return options_.seq_len;
      case Role::kPixels: return options_.image_size;
      case Role::kUnknown: break;
    }
    return std::nullopt;
  }

  Result<std::int64_t> SizeOf(const InputTensor& input, std::size_t axis) {
    const Dimension& dimension = input.shape[axis];
    if (dimension.size > 0) return dimension.size;
    if (auto bound = symbols_.find(dimension.symbol); bound != symbols_.end() && !dimension.symbol.empty()) {
      return bound->second;
    }
    const Role role = RoleOf(input, axis);
    const auto size = Chosen(role);
    const std::string symbol = dimension.symbol.empty() ? "" : " (" + Quoted(dimension.symbol) + ")";
    if (role == Role::kUnknown) return Fail("{}: axis {}{}: expected a fixed size", Name(input), axis, symbol);
    if (!size) return Fail("{}: axis {}{} is symbolic: expected {}", Name(input), axis, symbol, FlagOf(role));
    used_.push_back(role);
    symbols_[dimension.symbol] = *size;
    return *size;
  }

  bool IsUsed(Role role) const { return std::ranges::find(used_, role) != used_.end(); }

  // Without any symbolic batch, the first axis of the first input is the batch.
  Status CheckFixedBatch() const {
    if (IsUsed(Role::kBatch)) return {};
    for (const InputTensor& input : state_.file.inputs) {
      if (input.shape.empty()) continue;
      if (input.shape[0].size == options_.batch_size) return {};
      return Fail("{}: the batch is fixed to {}: expected --batch-size {}, or an export whose first axis is symbolic",
                  Name(input), input.shape[0].size, input.shape[0].size);
    }
    return {};
  }

  Status CheckFixed(Role role, std::optional<std::int64_t> chosen) const {
    if (!chosen || IsUsed(role)) return {};
    for (const InputTensor& input : state_.file.inputs) {
      for (std::size_t axis = 1; axis < input.shape.size(); ++axis) {
        if (RoleOf(input, axis) == role && input.shape[axis].size == *chosen) return {};
      }
    }
    return Fail("{} {}: no axis of the inputs is symbolic and of that kind: expected an export that has one",
                FlagOf(role), *chosen);
  }

  Lowering& state_;
  const ModelOptions& options_;
  std::map<std::string, std::int64_t> symbols_;
  std::vector<Role> used_;
};

}  // namespace

Status MakeInputs(Lowering& state) { return InputMaker(state).Make(); }

}  // namespace ebbtide::model::onnx
