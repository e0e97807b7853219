// Turns Python's values into parts of Requests.
#include "requests.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "base/units.h"
#include "module.h"

namespace ebbtide::core {
namespace {

namespace nb = nanobind;
using model::ModelOptions;

std::int64_t PositiveOf(nb::handle value) {
  const auto number = nb::cast<std::int64_t>(value);
  if (number < 1) Raise({fmt::format("{}: expected a number from 1 on", number)});
  return number;
}

DType AutocastOf(nb::handle value) {
  const auto name = nb::cast<std::string>(value);
  if (name == "bf16") return DType::kBFloat16;
  if (name == "fp16") return DType::kFloat16;
  Raise({fmt::format("autocast: expected bf16 or fp16, found {}", name)});
}

model::Device DeviceOf(nb::handle value) {
  const auto name = nb::cast<std::string>(value);
  if (name == "cpu") return model::Device::kCpu;
  if (name == "cuda") return model::Device::kCuda;
  Raise({fmt::format("device: expected cpu or cuda, found {}", name)});
}

using Texts = std::vector<std::string>;

// The options by their names; with '-' for '_' and "--" before them they are the command line's.
struct Option {
  const char* name;
  void (*set)(ModelOptions& options, nb::handle value);
};
constexpr std::array<Option, 14> kOptions = {{
    {"batch_size", [](ModelOptions& options, nb::handle value) { options.batch_size = PositiveOf(value); }},
    {"image_size", [](ModelOptions& options, nb::handle value) { options.image_size = PositiveOf(value); }},
    {"seq_len", [](ModelOptions& options, nb::handle value) { options.seq_len = PositiveOf(value); }},
    {"classes", [](ModelOptions& options, nb::handle value) { options.classes = PositiveOf(value); }},
    {"widths",
     [](ModelOptions& options, nb::handle value) { options.widths = nb::cast<std::vector<std::int64_t>>(value); }},
    {"optimizer", [](ModelOptions& options, nb::handle value) { options.optimizer = nb::cast<std::string>(value); }},
    {"device", [](ModelOptions& options, nb::handle value) { options.device = DeviceOf(value); }},
    {"inference", [](ModelOptions& options, nb::handle value) { options.inference = nb::cast<bool>(value); }},
    {"autocast", [](ModelOptions& options, nb::handle value) { options.autocast = AutocastOf(value); }},
    {"freeze", [](ModelOptions& options, nb::handle value) { options.freeze = nb::cast<Texts>(value); }},
    {"lora", [](ModelOptions& options, nb::handle value) { options.lora = PositiveOf(value); }},
    {"lora_targets", [](ModelOptions& options, nb::handle value) { options.lora_targets = nb::cast<Texts>(value); }},
    {"accumulate", [](ModelOptions& options, nb::handle value) { options.accumulate = PositiveOf(value); }},
    {"checkpoint", [](ModelOptions& options, nb::handle value) { options.checkpoint = nb::cast<std::string>(value); }},
}};

void SetOption(jobs::ModelRequest& request, std::string name, nb::handle value) {
  const auto* const option = std::ranges::find(kOptions, name, &Option::name);
  if (option == kOptions.end()) {
    Texts names;
    for (const Option& known : kOptions) names.emplace_back(known.name);
    Raise({fmt::format("{}: expected {}{}", name, JoinWithOr(names), DidYouMean(name, names))});
  }
  try {
    option->set(request.options, value);
  } catch (const nb::cast_error&) {
    Raise({fmt::format("{}: found a value of type {}", name, nb::cast<std::string>(nb::str(value.type())))});
  }
  std::ranges::replace(name, '_', '-');
  request.given.insert("--" + name);
}

}  // namespace

jobs::ModelRequest ModelOf(const nb::object& model, const nb::dict& options, const std::vector<Graph>& others) {
  jobs::ModelRequest request;
  request.options.device = model::Device::kCuda;
  for (const auto& [name, value] : options) SetOption(request, nb::cast<std::string>(name), value);
  for (const Graph& other : others) request.other_graphs.push_back(other.value);
  if (nb::isinstance<Graph>(model)) {
    request.graph = nb::cast<Graph>(model).value;
    request.model = request.graph->name;
  } else if (nb::isinstance<nb::str>(model)) {
    request.model = nb::cast<std::string>(model);
  } else {
    Raise({"expected a Graph, or the name or path of a MODEL"});
  }
  return request;
}

DeviceProfile GpuOf(const nb::object& gpu) {
  if (nb::isinstance<Profile>(gpu)) return nb::cast<Profile>(gpu).value;
  if (!nb::isinstance<nb::str>(gpu)) Raise({"gpu: expected a Profile, a name that `ebbtide gpus` lists, or a path"});
  return ValueOr(FindProfile(nb::cast<std::string>(gpu)));
}

jobs::Budget BudgetOf(const nb::object& budget) {
  if (budget.is_none()) return {};
  if (nb::isinstance<nb::int_>(budget)) {
    return ValueOr(jobs::ParseBudget(fmt::format("{}B", nb::cast<Bytes>(budget))));
  }
  return ValueOr(jobs::ParseBudget(nb::cast<std::string>(budget)));
}

double BandwidthOf(const nb::object& link) {
  if (link.is_none()) return 0;
  if (nb::isinstance<nb::str>(link)) return ValueOr(jobs::ParseLink(nb::cast<std::string>(link)));
  const auto bandwidth = nb::cast<double>(link);
  if (!(bandwidth >= 1)) Raise({fmt::format("link: expected bytes per second, found {}", bandwidth)});
  return bandwidth;
}

Bytes BytesOf(const nb::object& size, const std::string& name) {
  const Bytes bytes =
      nb::isinstance<nb::int_>(size) ? nb::cast<Bytes>(size) : ValueOr(ParseBytes(nb::cast<std::string>(size)));
  if (bytes <= 0 || bytes >= kTooLarge) Raise({fmt::format("{}: expected more than 0 bytes, found {}", name, bytes)});
  return bytes;
}

}  // namespace ebbtide::core
