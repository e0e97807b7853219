// The two tables of names.
#include "model/timed/kinds.h"

#include <algorithm>
#include <cctype>

namespace ebbtide::model::timed {
namespace {

struct Renamed {
  std::string_view theirs, kind;
};
// max_pool2d_backward is what the traces call the forward of max_pool2d_with_indices; its backward has the full name.
constexpr Renamed kTraced[] = {
    {"_cat", "cat"},
    {"_fused_droupout_", "_fused_dropout"},
    {"max_pool2d_backward", "max_pool2d_with_indices"},
    {"sum_dim_IntList", "sum"},
};

struct Layer {
  std::string_view module, forward, backward;
};
// Of a view, each node has an output of its own: a copy.
constexpr Layer kLayers[] = {
    {"Add", "add", "add_backward"},
    {"AvgPool2d", "avg_pool2d", "avg_pool2d_backward"},
    {"BatchNorm2d", "native_batch_norm", "native_batch_norm_backward"},
    {"Concat", "cat", "cat_backward"},
    {"Conv2d", "convolution", "convolution_backward"},
    {"Dropout", "native_dropout", "native_dropout_backward"},
    {"Linear", "addmm", "addmm_backward"},
    {"MaxPool2d", "max_pool2d_with_indices", "max_pool2d_with_indices_backward"},
    {"ReLU", "relu", "threshold_backward"},
    {"View", "view_copy", "view_copy_backward"},
};

}  // namespace

std::string KindOfTraced(std::string_view name, bool in_place) {
  const auto* renamed =
      std::find_if(std::begin(kTraced), std::end(kTraced), [&](const Renamed& entry) { return entry.theirs == name; });
  if (renamed != std::end(kTraced)) return std::string(renamed->kind);
  std::string_view kind = name.substr(0, name.find('.'));
  if (!in_place && kind.size() > 1 && kind.ends_with('_') && !kind.ends_with("__")) kind.remove_suffix(1);
  return std::string(kind);
}

LayerKinds KindsOfLayer(std::string_view module) {
  const auto* known =
      std::find_if(std::begin(kLayers), std::end(kLayers), [&](const Layer& layer) { return layer.module == module; });
  if (known != std::end(kLayers)) return {std::string(known->forward), std::string(known->backward)};
  std::string kind(module);
  std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return std::tolower(c); });
  return {kind, kind + "_backward"};
}

bool IsRandomKind(std::string_view kind) { return kind == "_fused_dropout" || kind == "native_dropout"; }

}  // namespace ebbtide::model::timed
