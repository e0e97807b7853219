// The stages of the front end in their order, for files, folders and bytes in memory.
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/json_text.h"
#include "graph/check.h"
#include "model/tensorflow/goal.h"
#include "model/tensorflow/inline.h"
#include "model/tensorflow/lower.h"
#include "model/tensorflow/simplify.h"
#include "model/tensorflow/tensorflow.h"
#include "model/tensorflow/train.h"
#include "model/tensorflow/translate.h"
#include "model/tensorflow/wire.h"

namespace ebbtide::model::tensorflow {
namespace {

constexpr const char* kSavedModel = "saved_model.pb";

Result<TrainingGraph> Build(const std::string& name, const File& file, const ModelOptions& options) {
  std::string optimizer;  // of a graph that brings its own update: unknown
  EBB_ASSIGN_OR_RETURN(const Goal goal, ChooseGoal(file, options));
  EBB_ASSIGN_OR_RETURN(Flat flat, Inline(file, goal, options));
  if (Trains(flat) && !options.inference && options.optimizer != ModelOptions().optimizer) {
    return Fail("--optimizer {}: of no use, since the graph brings its own update", options.optimizer);
  }
  if (!Trains(flat)) {
    FindWeights(flat);
    if (!options.inference) EBB_RETURN_IF_ERROR(AddStep(flat, options));
    if (!options.inference) optimizer = options.optimizer;
  }
  MergeSums(flat);
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph, LowerFlat(flat, options));
  graph.name = name;
  graph.meta["source"] = "tensorflow";
  if (!optimizer.empty()) graph.meta["optimizer"] = optimizer;
  if (!file.version.empty()) graph.meta["framework_version"] = file.version;
  if (Status status = Check(graph); !status) return Within("the training graph", status.error());
  return graph;
}

std::string NameOf(const std::string& path) {
  std::filesystem::path file(path);
  if (file.filename() == kSavedModel || !file.has_filename()) file = file.parent_path();
  std::string name = file.filename().string();
  for (const char* suffix : {".gz", ".pb"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - 3);
  }
  return IsUtf8(name) && !name.empty() ? name : "model";
}

}  // namespace

bool IsModelPath(const std::string& path) {
  if (path.ends_with(".pb") || path.ends_with(".pb.gz")) return true;
  std::error_code ignored;
  return std::filesystem::is_regular_file(std::filesystem::path(path) / kSavedModel, ignored);
}

Status CheckOptions(const ModelOptions& options) {
  if (options.autocast)
    return Fail("--autocast: of no use with TensorFlow, whose graph says what is computed in which type");
  if (!options.freeze.empty() || options.lora) return Fail("--freeze, --lora: not modelled for TensorFlow");
  if (options.accumulate > 1) return Fail("--accumulate: not modelled for TensorFlow");
  if (options.checkpoint) return Fail("--checkpoint: not modelled for TensorFlow");
  return {};
}

Result<TrainingGraph> ParseModel(const std::string& name, std::string_view content, const ModelOptions& options) {
  const auto parse = [&]() -> Result<TrainingGraph> {
    EBB_RETURN_IF_ERROR(CheckOptions(options));
    if (content.empty()) return Fail("is empty: expected a TensorFlow graph");
    if (static_cast<Bytes>(content.size()) > protobuf::kMostFileBytes) return Fail("expected less than 2 GiB");
    google::protobuf::io::ArrayInputStream stream(content.data(), static_cast<int>(content.size()));
    const FileKind kind = KindOf(content);
    EBB_ASSIGN_OR_RETURN(const std::string structure, ReadStructure(stream, static_cast<Bytes>(content.size()), kind));
    EBB_ASSIGN_OR_RETURN(const File file,
                         kind == FileKind::kSavedModel ? ParseSavedModel(structure) : ParseGraphDef(structure));
    return Build(NameOf(name), file, options);
  };
  Result<TrainingGraph> graph = parse();
  if (!graph) return Within(name, graph.error());
  return graph;
}

Result<TrainingGraph> ReadModel(const std::string& path, const ModelOptions& options) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::string file = is_folder ? (std::filesystem::path(path) / kSavedModel).string() : path;
  EBB_ASSIGN_OR_RETURN(const std::string content, ReadFile(file, protobuf::kMostFileBytes));
  return ParseModel(file, content, options);
}

Result<TrainingGraph> ConvertModel(const TrainingGraph& graph, const ModelOptions& options) {
  EBB_ASSIGN_OR_RETURN(Translation made, TranslateForward(graph));
  if (made.loss != kNone) EBB_RETURN_IF_ERROR(AddStepBehind(made.flat, made.loss, options));
  EBB_ASSIGN_OR_RETURN(TrainingGraph step, LowerFlat(made.flat, options));
  step.name = graph.name;
  step.meta["source"] = "built in";
  step.meta["optimizer"] = options.optimizer;
  if (Status status = Check(step); !status) return Within("the training graph", status.error());
  return step;
}

}  // namespace ebbtide::model::tensorflow
