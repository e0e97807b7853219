// Which front end reads what the user named.
#include <string_view>

#include "base/file.h"
#include "base/nearest.h"
#include "graph/json.h"
#include "model/hf/hf.h"
#include "model/model.h"
#include "model/mxnet/mxnet.h"
#include "model/onnx/onnx.h"
#include "model/source.h"
#include "model/tensorflow/tensorflow.h"
#include "model/timed/timed.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model {
namespace {

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

Status CheckFramework(const std::string& model, ModelSource source, Framework framework) {
  if (source == ModelSource::kBuiltIn) return {};
  if (framework == Framework::kMxnet && source != ModelSource::kMxnet) {
    return Fail("{}: --framework mxnet: expected a built-in model or an MXNet -symbol.json", model);
  }
  if (framework == Framework::kTensorflow && source != ModelSource::kTensorflow) {
    return Fail("{}: --framework tensorflow: expected a built-in model, a .pb or a SavedModel folder", model);
  }
  return {};
}

Result<TrainingGraph> LoadModel(const std::string& model, const ModelOptions& options) {
  const ModelSource source = SourceOf(model);
  EBB_RETURN_IF_ERROR(CheckFramework(model, source, options.framework));
  if (options.autocast && options.device != Device::kCuda) {
    return Fail("{}: --autocast: expected --device cuda, whose lists of operators it follows", model);
  }
  switch (source) {
    case ModelSource::kGraph: return ReadJson(model);
    case ModelSource::kLayers: return timed::ReadLayers(model);
    case ModelSource::kMxnet: return mxnet::ReadModel(model, options);
    case ModelSource::kHuggingFace: return hf::ReadModel(model, options);
    case ModelSource::kOnnx: return onnx::ReadModel(model, options);
    case ModelSource::kTensorflow: return tensorflow::ReadModel(model, options);
    case ModelSource::kUnknownFile:
      return Fail(
          "{}: expected a file that ends in .onnx, .json, .json.gz, .txt or .pb, a SavedModel folder, or one with a "
          "config.json",
          model);
    case ModelSource::kScript: return Fail("{}: a function of a script is captured first (ebbtide capture)", model);
    case ModelSource::kBuiltIn: break;
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
