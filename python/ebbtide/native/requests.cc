// Turns Python's values into parts of Requests.
#include "requests.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "base/units.h"
#include "base/words.h"
#include "model/option_words.h"
#include "module.h"

namespace ebbtide::core {
namespace {

namespace nb = nanobind;
using model::ModelOptions;

using Texts = std::vector<std::string>;

std::int64_t PositiveOf(nb::handle value) {
  const auto number = nb::cast<std::int64_t>(value);
  if (number < 1) Raise({fmt::format("{}: expected a number from 1 on", number)});
  return number;
}

std::string TextOf(nb::handle value) { return nb::cast<std::string>(value); }
bool TruthOf(nb::handle value) { return nb::cast<bool>(value); }

void CheckpointOf(nb::handle value, ModelOptions& options) {
  if (const Status status = model::SetCheckpoint(TextOf(value), options); !status) Raise(status.error());
}

// Texts, or numbers where the words are: fsdp=2.
template <class T, std::size_t N>
T WordOf(const std::array<Word<T>, N>& words, nb::handle value) {
  return ValueOr(ParseWord(words, nb::isinstance<nb::int_>(value) ? TextOf(nb::str(value)) : TextOf(value)));
}

// The options by their names; with '-' for '_' and "--" before them they are the command line's.
struct Option {
  const char* name;
  void (*set)(ModelOptions& options, nb::handle value);
};
#define EBB_SET(expression) [](ModelOptions& options, nb::handle value) { expression; }
constexpr auto kOptions = std::to_array<Option>({
    {"batch_size", EBB_SET(options.batch_size = PositiveOf(value))},
    {"image_size", EBB_SET(options.image_size = PositiveOf(value))},
    {"seq_len", EBB_SET(options.seq_len = PositiveOf(value))},
    {"classes", EBB_SET(options.classes = PositiveOf(value))},
    {"widths", EBB_SET(options.widths = nb::cast<std::vector<std::int64_t>>(value))},
    {"optimizer", EBB_SET(options.optimizer = TextOf(value))},
    {"device", EBB_SET(options.device = WordOf(model::kDeviceWords, value))},
    {"inference", EBB_SET(options.inference = TruthOf(value))},
    {"autocast", EBB_SET(options.autocast = WordOf(model::kAutocastWords, value))},
    {"freeze", EBB_SET(options.freeze = nb::cast<Texts>(value))},
    {"lora", EBB_SET(options.lora = PositiveOf(value))},
    {"lora_targets", EBB_SET(options.lora_targets = nb::cast<Texts>(value))},
    {"lora_dropout", EBB_SET(options.lora_dropout = nb::cast<double>(value))},
    {"accumulate", EBB_SET(options.accumulate = PositiveOf(value))},
    {"clip", EBB_SET(options.clip = TruthOf(value))},
    {"checkpoint", EBB_SET(CheckpointOf(value, options))},
    {"dtype", EBB_SET(options.dtype = WordOf(model::kDtypeWords, value))},
    {"quantize", EBB_SET(options.quantize = WordOf(model::kQuantizeWords, value))},
    {"kbit_prepare", EBB_SET(options.kbit_prepare = TruthOf(value))},
    {"attention", EBB_SET(options.attention = WordOf(model::kAttentionWords, value))},
    {"loss", EBB_SET(options.loss = WordOf(model::kLossWords, value))},
    {"kernels", EBB_SET(options.kernels = WordOf(model::kKernelWords, value))},
    {"packing", EBB_SET(options.packing = TruthOf(value))},
    {"resize_vocab", EBB_SET(options.resize_vocab = PositiveOf(value))},
    {"transformers", EBB_SET(options.transformers = ValueOr(model::ParseLibraryVersion(TextOf(value))))},
});
#undef EBB_SET

// Those of ranks.
struct LayoutOption {
  const char* name;
  void (*set)(parallel::Layout& layout, nb::handle value);
};
#define EBB_SET(expression) [](parallel::Layout& layout, nb::handle value) { expression; }
constexpr auto kLayoutOptions = std::to_array<LayoutOption>({
    {"gpus", EBB_SET(layout.gpus = PositiveOf(value))},
    {"ddp", EBB_SET(if (TruthOf(value)) layout.data = parallel::DataParallel::kDdp)},
    {"fsdp", EBB_SET(layout.data = WordOf(parallel::kFsdpWords, value))},
    {"zero", EBB_SET(layout.data = WordOf(parallel::kZeroWords, value))},
    {"tp", EBB_SET(layout.tp = PositiveOf(value))},
    {"pp", EBB_SET(layout.pp = PositiveOf(value))},
    {"microbatches", EBB_SET(layout.microbatches = PositiveOf(value))},
    {"chunks", EBB_SET(layout.chunks = PositiveOf(value))},
    {"cp", EBB_SET(layout.cp = PositiveOf(value))},
    {"reduce_each_batch", EBB_SET(layout.reduces_each_batch = TruthOf(value))},
});
#undef EBB_SET

[[noreturn]] void RaiseUnknown(const std::string& name) {
  Texts names;
  for (const Option& known : kOptions) names.emplace_back(known.name);
  for (const LayoutOption& known : kLayoutOptions) names.emplace_back(known.name);
  Raise({fmt::format("{}: expected {}{}", name, JoinWithOr(names), DidYouMean(name, names))});
}

void SetOption(jobs::ModelRequest& request, std::string name, nb::handle value) {
  const auto* const option = std::ranges::find(kOptions, name, &Option::name);
  const auto* const of_layout = std::ranges::find(kLayoutOptions, name, &LayoutOption::name);
  try {
    if (option != kOptions.end()) {
      option->set(request.options, value);
    } else if (of_layout != kLayoutOptions.end()) {
      of_layout->set(request.layout, value);
      return;
    } else {
      RaiseUnknown(name);
    }
  } catch (const nb::cast_error&) {
    Raise({fmt::format("{}: found a value of type {}", name, TextOf(nb::str(value.type())))});
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
