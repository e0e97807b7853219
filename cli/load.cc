#include "cli/load.h"

#include "cli/capture_model.h"
#include "cli/python.h"
#include "cli/temporary_folder.h"
#include "model/mxnet/mxnet.h"
#include "model/tensorflow/tensorflow.h"

namespace ebbtide::cli {
namespace {

Status Refuse(const CLI::Option* flag, const ModelFlags& model, const char* why) {
  if (flag->count() == 0) return {};
  return Fail("{}: of no use with {}, {}", flag->get_name(), model.model, why);
}

Result<TrainingGraph> CaptureAndLoad(const ModelFlags& model, const OutputFlags& output) {
  EBB_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  const std::string file = folder.File("step.json");
  EBB_RETURN_IF_ERROR(CaptureModel(model, output, file));
  return model::LoadModel(file, model.options);
}

}  // namespace

Status CheckScriptFlags(const ModelFlags& model) {
  EBB_RETURN_IF_ERROR(Refuse(model.widths, model, "a function that makes its own layers"));
  EBB_RETURN_IF_ERROR(Refuse(model.elementwise, model, "whose operators PyTorch knows"));
  for (const CLI::Option* flag : model.step) {
    EBB_RETURN_IF_ERROR(Refuse(flag, model, "a function that makes its own step"));
  }
  return {};
}

Result<TrainingGraph> Load(const ModelFlags& model, const OutputFlags& output) {
  if (NamesScriptFunction(model.model)) {
    EBB_RETURN_IF_ERROR(CheckScriptFlags(model));
    return CaptureAndLoad(model, output);
  }
  const bool is_mxnet = model::mxnet::IsSymbolFile(model.model);
  const bool is_graph = !is_mxnet && (model.model.ends_with(".json") || model.model.ends_with(".json.gz") ||
                                      model.model.ends_with(".txt"));
  const bool is_onnx = model.model.ends_with(".onnx");
  if (is_graph) {
    std::vector<const CLI::Option*> flags = model.shaping;
    flags.insert(flags.end(), model.step.begin(), model.step.end());
    flags.push_back(model.elementwise);
    for (const CLI::Option* flag : flags) {
      EBB_RETURN_IF_ERROR(Refuse(flag, model, "a graph whose shapes and optimizer are fixed"));
    }
  } else if (is_onnx || is_mxnet || model::tensorflow::IsModelPath(model.model)) {
    EBB_RETURN_IF_ERROR(Refuse(model.widths, model, "which has its own layers"));
    for (const CLI::Option* flag : model.lora) {
      EBB_RETURN_IF_ERROR(Refuse(flag, model, "whose linear layers have no names of their own"));
    }
  } else {
    EBB_RETURN_IF_ERROR(Refuse(model.elementwise, model, "whose operators are all known"));
  }
  EBB_RETURN_IF_ERROR(CheckOptimizer(model));
  EBB_RETURN_IF_ERROR(CheckStep(model));
  return model::LoadModel(model.model, model.options);
}

}  // namespace ebbtide::cli
