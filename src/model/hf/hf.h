// The front end for Hugging Face: a folder with a config.json, or that file, becomes the training step that
// transformers would run. No weights are read. docs/hugging-face.md says how.
//
//   settings.h  the file as settings by their paths
//   families.h  the table of families: which parts they are made of
//   config.h    settings to a Decoder
//   decoder.h   a Decoder to ops (parts.h: norms, attention, experts)
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "model/model.h"

namespace ebbtide::model::hf {

// The config.json that MODEL names: itself, or the one in the folder; empty where it is neither. A file counts by what
// it says (`model_type`, `architectures`, diffusers' `_class_name` or timm's `architecture`), whatever it is called.
std::string ConfigPath(const std::string& model);

// Whether the families of this folder hold the model; others are captured with the user's own packages.
bool IsReadHere(const std::string& config_path);

// Whether the model has experts, so that its step may depend on the routing.
bool HasExperts(const std::string& config_path);

// Whether a library has a fused linear cross-entropy for the model (`--loss fused`).
bool HasFusedLoss(const std::string& config_path);

// Errors begin with the path.
Result<TrainingGraph> ReadModel(const std::string& path, const ModelOptions& options);

// The same for a file that is in memory. Errors begin with `name`.
Result<TrainingGraph> ParseModel(const std::string& name, std::string_view content, const ModelOptions& options);

}  // namespace ebbtide::model::hf
