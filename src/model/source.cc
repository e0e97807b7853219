// Kinds of MODEL by their names.
#include "model/source.h"

#include "model/hf/hf.h"
#include "model/mxnet/mxnet.h"
#include "model/tensorflow/tensorflow.h"

namespace ebbtide::model {
namespace {

bool NamesScriptFunction(const std::string& model) {
  const std::size_t at = model.rfind(".py:");
  return at != std::string::npos && at > 0 && at + 4 < model.size();
}

}  // namespace

ModelSource SourceOf(const std::string& model) {
  if (NamesScriptFunction(model)) return ModelSource::kScript;
  if (mxnet::IsSymbolFile(model)) return ModelSource::kMxnet;
  if (!hf::ConfigPath(model).empty()) return ModelSource::kHuggingFace;
  if (model.ends_with(".json") || model.ends_with(".json.gz")) return ModelSource::kGraph;
  if (model.ends_with(".txt")) return ModelSource::kLayers;
  if (model.ends_with(".onnx")) return ModelSource::kOnnx;
  if (tensorflow::IsModelPath(model)) return ModelSource::kTensorflow;
  return model.find('/') == std::string::npos ? ModelSource::kBuiltIn : ModelSource::kUnknownFile;
}

}  // namespace ebbtide::model
