// What a MODEL is, told from its name alone: the one place that decides it.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide::model {

enum class ModelSource : std::uint8_t {
  kBuiltIn,      // a name of the zoo, or one that nothing has
  kGraph,        // .json, .json.gz: a graph of our own, or a timed trace
  kLayers,       // .txt: a layer profile
  kOnnx,         // .onnx
  kTensorflow,   // .pb, .pb.gz, or a SavedModel folder
  kMxnet,        // -symbol.json, -symbol.json.gz
  kHuggingFace,  // a config.json of transformers, timm or diffusers, or a folder that has one
  kScript,       // SCRIPT.py:function, which is captured before use
  kUnknownFile,  // a path with a suffix that nobody reads
};

// Looks at the file system only to tell folders from each other, and configurations from other .json files.
ModelSource SourceOf(const std::string& model);

// Whether shapes and optimizer are fixed: nothing but the batch can be chosen, and that only with a second capture.
constexpr bool IsFixed(ModelSource source) { return source == ModelSource::kGraph || source == ModelSource::kLayers; }

}  // namespace ebbtide::model
