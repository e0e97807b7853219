// What stands in for values that nobody knows, and the list of places where something was decided by one.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>

#include "values.h"

namespace ebbtide_observer {

Assumptions assumptions;

namespace {

constexpr size_t kMostRecords = 200;

struct Origin {
  Assumed assumed = Assumed::kValues;
  std::string operator_name, line;
};

struct Entry {
  std::string assumed, led_to;
  int64_t count = 0, number = 0;
};

struct State {
  std::mutex mutex;
  std::vector<Origin> origins;  // number - 1
  std::map<std::string, uint32_t> numbers;
  std::map<std::pair<std::string, std::string>, Entry> entries;  // by line and what happened there
  int64_t left_out = 0;
};
State& TheState() {
  static auto* state = new State;
  return *state;
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string Short(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", number);
  return text;
}

bool Number(const std::string& text, double& out) {
  try {
    size_t end = 0;
    out = std::stod(text, &end);
    return end == text.size() && std::isfinite(out);
  } catch (const std::exception&) {
    return false;
  }
}

bool Share(const std::string& text, double& out) { return Number(text, out) && out >= 0 && out <= 1; }

std::string Set(const std::string& name, const std::string& value) {
  double number = 0;
  if (name == "masks") {
    if (value == "true" || value == "false")
      assumptions.masks = value == "true";
    else if (!Share(value, assumptions.masks))
      return "masks: expected true, false or a share of 0 to 1, found " + value;
  } else if (name == "experts") {
    if (value != "balanced" && value != "first") return "experts: expected balanced or first, found " + value;
    assumptions.balanced = value == "balanced";
  } else if (name == "proposals") {
    if (value == "limit")
      assumptions.kept = 1;
    else if (!Share(value, assumptions.kept))
      return "proposals: expected limit or a share of 0 to 1, found " + value;
  } else if (name == "values") {
    if (!Number(value, assumptions.values)) return "values: expected a number, found " + value;
  } else if (name == "integers") {
    if (!Number(value, number) || number != std::floor(number) || std::abs(number) > 9e15)
      return "integers: expected a whole number, found " + value;
    assumptions.integers = static_cast<int64_t>(number);
  } else if (name == "gradients") {
    if (value != "finite" && value != "infinite") return "gradients: expected finite or infinite, found " + value;
    assumptions.finite = value == "finite";
  } else {
    return "expected masks, experts, proposals, values, integers or gradients, found " + name;
  }
  return "";
}

}  // namespace

bool ParseAssumptions(const std::string& text, std::string& error) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const size_t equals = part.find('=');
    error = equals == std::string::npos ? "expected NAME=VALUE, found " + part
                                        : Set(part.substr(0, equals), part.substr(equals + 1));
    if (!error.empty()) return false;
    at = end + 1;
  }
  return true;
}

std::string Describe(Assumed assumed) {
  const auto share = [](const char* what, double value) {
    return std::string(what) + (value == 1 ? "" : " at a share of " + Short(value));
  };
  switch (assumed) {
    case Assumed::kMasks:
      return assumptions.masks == 1   ? "masks all true"
             : assumptions.masks == 0 ? "masks all false"
                                      : share("masks true", assumptions.masks);
    case Assumed::kIndices:
      return assumptions.balanced ? "indices spread evenly (experts balanced)"
                                  : "all indices the first (one expert takes all)";
    case Assumed::kFinite: return assumptions.finite ? "values finite" : "values not finite";
    case Assumed::kKept:
      return assumptions.kept == 1 ? "all kept (proposals at their limit)" : share("kept", assumptions.kept);
    case Assumed::kDistinct: return "values all distinct";
    case Assumed::kRepeats: return "every count " + std::to_string(assumptions.integers);
    case Assumed::kValues: return "value " + Short(assumptions.values) + " (losses finite)";
    case Assumed::kIntegers: return "integer " + std::to_string(assumptions.integers);
    case Assumed::kDraw: return "a draw of the same distribution, not the device's own";
    case Assumed::kZeros: return "zeros";
    case Assumed::kSolved: return "matrices well-conditioned (factorisations succeed)";
    case Assumed::kWithinBounds: return "draws within their bounds";
  }
  return "";
}

uint32_t OriginOf(Assumed assumed, const std::string& operator_name, const std::string& line) {
  State& state = TheState();
  std::lock_guard<std::mutex> lock(state.mutex);
  const std::string key = std::to_string(static_cast<int>(assumed)) + operator_name + "@" + line;
  auto [found, is_new] = state.numbers.emplace(key, 0);
  if (is_new) {
    state.origins.push_back({assumed, operator_name, line});
    found->second = static_cast<uint32_t>(state.origins.size());
  }
  return found->second;
}

bool IsOrigin(uint32_t number, Assumed assumed) {
  State& state = TheState();
  std::lock_guard<std::mutex> lock(state.mutex);
  return number > 0 && number <= state.origins.size() && state.origins[number - 1].assumed == assumed;
}

void Record(Assumed assumed, const std::string& line, const std::string& what, const std::string& led_to) {
  State& state = TheState();
  std::lock_guard<std::mutex> lock(state.mutex);
  auto found = state.entries.find({line, what});
  if (found == state.entries.end()) {
    if (state.entries.size() >= kMostRecords) {
      ++state.left_out;
      return;
    }
    found = state.entries.emplace(std::pair(line, what), Entry{}).first;
    found->second.number = static_cast<int64_t>(state.entries.size());
    found->second.assumed = Describe(assumed);
    found->second.led_to = led_to;
  }
  ++found->second.count;
}

void RecordOrigin(uint32_t number, const std::string& line, const std::string& what, const std::string& led_to) {
  Origin origin;
  {
    State& state = TheState();
    std::lock_guard<std::mutex> lock(state.mutex);
    if (number == 0 || number > state.origins.size()) return;
    origin = state.origins[number - 1];
  }
  const std::string from = origin.line.empty() || origin.line == line ? "" : " at " + origin.line;
  Record(origin.assumed, line, what + " of what " + origin.operator_name + " made" + from, led_to);
}

std::string RecordsAsJson() {
  State& state = TheState();
  std::lock_guard<std::mutex> lock(state.mutex);
  std::map<int64_t, std::string> ordered;
  for (const auto& [place, entry] : state.entries) {
    ordered[entry.number] = "{\"line\": " + Quoted(place.first) + ", \"what\": " + Quoted(place.second) +
                            ", \"led_to\": " + Quoted(entry.led_to) + ", \"assumed\": " + Quoted(entry.assumed) +
                            ", \"count\": " + std::to_string(entry.count) + "}";
  }
  std::string out = "{\"left_out\": " + std::to_string(state.left_out) + ", \"assumptions\": [";
  for (const auto& [number, text] : ordered) out += (number == ordered.begin()->first ? "" : ", ") + text;
  return out + "]}";
}

at::Tensor AssumedMask(at::IntArrayRef sizes, bool finite_test, bool value) {
  if (finite_test) return at::full(sizes, assumptions.finite == value, at::kBool);
  const double share = assumptions.masks;
  if (share == 0 || share == 1) return at::full(sizes, share == 1, at::kBool);
  at::Tensor mask = at::empty(sizes, at::kBool);
  bool* out = mask.data_ptr<bool>();
  for (int64_t i = 0; i < mask.numel(); ++i)  // spread evenly
    out[i] = std::floor(static_cast<double>(i + 1) * share) > std::floor(static_cast<double>(i) * share);
  return mask;
}

// Spread evenly over what the operator chose from, and different within one choice. A sort is the order that was there.
at::Tensor AssumedIndices(const Rule& rule, const std::vector<c10::IValue>& arguments, at::IntArrayRef sizes) {
  at::Tensor indices = at::zeros(sizes, at::kLong);
  if (!assumptions.balanced || arguments.empty() || !arguments[0].isTensor()) return indices;
  const at::Tensor& from = arguments[0].toTensor();
  const bool sorts = rule.name == "aten::sort" || rule.name == "aten::argsort";
  // The dimension that was chosen along: the one whose size differs, or the last.
  int64_t dim = static_cast<int64_t>(sizes.size()) - 1, choices = from.dim() > 0 ? from.size(-1) : 1;
  const auto& names = rule.handle->schema().arguments();
  for (size_t i = 0; i < names.size() && i < arguments.size(); ++i) {
    if (names[i].name() != "dim" || !arguments[i].isInt() || from.dim() == 0) continue;
    const int64_t chosen = arguments[i].toInt();
    dim = chosen < 0 ? chosen + from.dim() : chosen;
    choices = from.size(dim);
  }
  if (choices < 1 || indices.numel() == 0) return indices;
  const bool kept = static_cast<int64_t>(sizes.size()) == from.dim();
  if (sorts && kept)
    return indices.add(at::arange(choices, at::kLong).reshape([&] {
      std::vector<int64_t> shape(sizes.size(), 1);
      shape[static_cast<size_t>(dim)] = choices;
      return shape;
    }()));
  if (!kept || dim >= static_cast<int64_t>(sizes.size()))
    return at::arange(indices.numel(), at::kLong).remainder(choices).reshape(sizes);
  // Counted through with the chosen dimension innermost, so that one choice has different entries.
  std::vector<int64_t> moved(sizes.begin(), sizes.end());
  moved.erase(moved.begin() + dim);
  moved.push_back(sizes[static_cast<size_t>(dim)]);
  return at::arange(indices.numel(), at::kLong).remainder(choices).reshape(moved).movedim(-1, dim).contiguous();
}

}  // namespace ebbtide_observer
