// Which front end reads what the user named.
#include <string_view>

#include "base/file.h"
#include "base/nearest.h"
#include "graph/json.h"
#include "model/model.h"
#include "model/mxnet/mxnet.h"
#include "model/onnx/onnx.h"
#include "model/tensorflow/tensorflow.h"
#include "model/timed/timed.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model {
namespace {

enum class Source { kBuiltIn, kGraph, kLayers, kMxnet, kOnnx, kTensorflow, kUnknownFile };

Source SourceOf(const std::string& model) {
  if (mxnet::IsSymbolFile(model)) return Source::kMxnet;
  if (model.ends_with(".json") || model.ends_with(".json.gz")) return Source::kGraph;
  if (model.ends_with(".txt")) return Source::kLayers;
  if (model.ends_with(".onnx")) return Source::kOnnx;
  if (tensorflow::IsModelPath(model)) return Source::kTensorflow;
  return model.find('/') == std::string::npos ? Source::kBuiltIn : Source::kUnknownFile;
}

std::vector<std::string> BuiltInNames() {
  std::vector<std::string> names;
  for (const BuiltInModel& model : BuiltInModels()) names.push_back(model.name);
  return names;
}

// Of our own, or a trace with times.
Result<TrainingGraph> ReadJson(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kGraphFileLimit));
  return timed::IsTimedTrace(text) ? timed::ParseTrace(text, path) : ParseGraph(text, path);
}

}  // namespace

std::vector<BuiltInModel> BuiltInModels() {
  std::vector<BuiltInModel> models;
  for (const zoo::Family& family : zoo::Families()) {
    for (const zoo::Member& member : family.members) {
      models.push_back({.name = member.name, .family = family.name, .description = member.description});
    }
  }
  return models;
}

Result<TrainingGraph> LoadModel(const std::string& model, const ModelOptions& options) {
  const Source source = SourceOf(model);
  if (options.framework == Framework::kMxnet && source != Source::kBuiltIn && source != Source::kMxnet)
    return Fail("{}: --framework mxnet: expected a built-in model or an MXNet -symbol.json", model);
  if (options.framework == Framework::kTensorflow && source != Source::kBuiltIn && source != Source::kTensorflow)
    return Fail("{}: --framework tensorflow: expected a built-in model, a .pb or a SavedModel folder", model);
  if (options.autocast && options.device != Device::kCuda) {
    return Fail("{}: --autocast: expected --device cuda, whose lists of operators it follows", model);
  }
  switch (source) {
    case Source::kGraph: return ReadJson(model);
    case Source::kLayers: return timed::ReadLayers(model);
    case Source::kMxnet: return mxnet::ReadModel(model, options);
    case Source::kOnnx: return onnx::ReadModel(model, options);
    case Source::kTensorflow: return tensorflow::ReadModel(model, options);
    case Source::kUnknownFile:
      return Fail("{}: expected a file that ends in .onnx, .json, .json.gz, .txt or .pb, or a SavedModel folder",
                  model);
    case Source::kBuiltIn: break;
  }
  const zoo::Member* member = zoo::FindMember(model);
  if (member == nullptr) {
    return Fail("{}: no built-in model of this name (see ebbtide models){}", model, DidYouMean(model, BuiltInNames()));
  }
  if (options.framework == Framework::kPytorch) return zoo::Build(*member, options);
  const bool is_mxnet = options.framework == Framework::kMxnet;
  EBB_RETURN_IF_ERROR(is_mxnet ? mxnet::CheckOptions(options) : tensorflow::CheckOptions(options));
  ModelOptions plain = options;
  plain.device = Device::kCuda;
  plain.optimizer = "none";
  EBB_ASSIGN_OR_RETURN(const TrainingGraph graph, zoo::Build(*member, plain));
  Result<TrainingGraph> step =
      is_mxnet ? mxnet::ConvertModel(graph, options) : tensorflow::ConvertModel(graph, options);
  if (!step) return Within(model, step.error());
  return step;
}

}  // namespace ebbtide::model
