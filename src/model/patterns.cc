// Matches by fnmatch, and checks that each flag's patterns choose something, with the nearest names in the message.
#include "model/patterns.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/nearest.h"
#include "model/checkpoint.h"
#include "model/lora.h"

namespace ebbtide::model {

bool Matches(const std::string& pattern, const std::string& path) {
  return fnmatch(pattern.c_str(), path.c_str(), FNM_NOESCAPE) == 0;
}

std::string_view MatchedPart(const std::string& pattern, std::string_view path) {
  for (std::size_t end = 0; end < path.size();) {
    end = std::min(path.find('.', end + 1), path.size());
    if (Matches(pattern, std::string(path.substr(0, end)))) return path.substr(0, end);
  }
  return {};
}

namespace {

constexpr std::size_t kShown = 4;

// "a, b, c, d, ...".
std::string Few(const std::vector<std::string>& names) {
  std::vector<std::string> shown(names.begin(),
                                 names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShown)));
  return fmt::format("{}{}", fmt::join(shown, ", "), names.size() > kShown ? ", ..." : "");
}

tl::unexpected<Error> NoneMatches(const char* flag, const std::string& pattern, const char* what,
                                  const std::vector<std::string>& names) {
  if (names.empty()) return Fail("{} {}: the model has no {}s", flag, pattern, what);
  return Fail("{} {}: matches no {} of {}{}", flag, pattern, what, Few(names), DidYouMean(pattern, names));
}

std::vector<std::string> ParameterNames(const Builder& b) {
  std::vector<std::string> names;
  for (TensorId id : b.parameters()) names.push_back(b.at(id).name);
  return names;
}

// Paths of modules, outer ones too, in the order in which they are called.
std::vector<std::string> LayerNames(const Builder& b) {
  std::vector<std::string> names;
  std::string_view last;
  for (const Op& op : b.graph().ops) {
    if (op.layer == last) continue;
    last = op.layer;
    for (std::size_t end = 0; end < op.layer.size();) {
      end = std::min(op.layer.find('.', end + 1), op.layer.size());
      std::string name = op.layer.substr(0, end);
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

Status CheckFreeze(const Builder& b) {
  const std::vector<std::string> names = ParameterNames(b);
  for (const std::string& pattern : b.options().freeze) {
    const auto chosen = [&](const std::string& name) { return !MatchedPart(pattern, name).empty(); };
    if (std::ranges::none_of(names, chosen)) return NoneMatches("--freeze", pattern, "parameter", names);
  }
  return {};
}

Status CheckLora(const Builder& b) {
  if (!b.options().lora) return {};
  const std::vector<std::string>& layers = b.linear_layers();
  for (const std::string& pattern : b.options().lora_targets) {
    const auto chosen = [&](const std::string& layer) { return IsTarget(pattern, layer); };
    if (std::ranges::none_of(layers, chosen)) return NoneMatches("--lora-targets", pattern, "linear layer", layers);
  }
  if (std::ranges::any_of(layers, [&](const std::string& layer) { return HasAdapter(b.options(), layer); })) return {};
  if (layers.empty()) return Fail("--lora {}: the model has no linear layers by name", *b.options().lora);
  return Fail("--lora {}: peft has no default layers for this model; expected --lora-targets, of {}", *b.options().lora,
              Few(layers));
}

Status CheckCheckpoint(const Builder& b) {
  if (!b.options().checkpoint || !CheckpointedBlocks(b).empty()) return {};
  const std::string& pattern = *b.options().checkpoint;
  const std::vector<std::string> names = LayerNames(b);
  if (!pattern.empty()) return NoneMatches("--checkpoint", pattern, "layer", names);
  return Fail("--checkpoint: the model has no repeated blocks; expected --checkpoint=PATTERN, of {}", Few(names));
}

}  // namespace

Status CheckChoices(const Builder& b) {
  EBB_RETURN_IF_ERROR(CheckFreeze(b));
  EBB_RETURN_IF_ERROR(CheckLora(b));
  EBB_RETURN_IF_ERROR(CheckCheckpoint(b));
  const auto is_trained = [&](TensorId id) { return b.IsTrainedParameter(id); };
  if (!b.options().freeze.empty() && !b.inference() && std::ranges::none_of(b.parameters(), is_trained)) {
    return Fail("--freeze: no parameter is left to train; expected fewer patterns, or --inference");
  }
  return {};
}

}  // namespace ebbtide::model
