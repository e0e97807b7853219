// The stages of the front end in their order, for a file and for bytes in memory.
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/file.h"
#include "base/json_text.h"
#include "graph/check.h"
#include "model/onnx/inputs.h"
#include "model/onnx/loss.h"
#include "model/onnx/onnx.h"
#include "model/onnx/patterns/pattern.h"
#include "model/onnx/wire.h"
#include "model/update_rules.h"

namespace ebbtide::model::onnx {
namespace {

Result<TrainingGraph> Build(const std::string& name, const std::string& structure, const ModelOptions& options) {
  EBB_ASSIGN_OR_RETURN(File file, ParseFile(structure));
  file.name = name;
  DropUnused(file);
  ReplacePatterns(file);
  Lowering state(file, options);
  EBB_RETURN_IF_ERROR(MakeInputs(state));
  for (const Node& node : file.nodes) EBB_RETURN_IF_ERROR(LowerNode(state, node));
  EBB_ASSIGN_OR_RETURN(const TensorId loss, MakeLoss(state));
  state.b.graph().meta["source"] = "onnx";
  state.b.graph().meta["opset"] = std::to_string(file.opset);
  if (!file.producer.empty()) state.b.graph().meta["producer"] = file.producer;
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph, FinishStep(std::move(state.b), loss, options));
  if (options.inference) graph.outputs = OutputTensors(state);
  if (Status status = Check(graph); !status) return Within("the training graph", status.error());
  return graph;
}

Result<TrainingGraph> Read(const std::string& path, google::protobuf::io::ZeroCopyInputStream& stream, Bytes size,
                           const ModelOptions& options) {
  if (size == 0) return Fail("is empty: expected an ONNX model");
  EBB_ASSIGN_OR_RETURN(const std::string structure, ReadStructure(stream, size));
  const std::string name = std::filesystem::path(path).stem().string();
  return Build(IsUtf8(name) ? name : "model", structure, options);
}

}  // namespace

Result<TrainingGraph> ReadModel(const std::string& path, const ModelOptions& options) {
  EBB_ASSIGN_OR_RETURN(const int descriptor, OpenToRead(path));
  google::protobuf::io::FileInputStream stream(descriptor);
  stream.SetCloseOnDelete(true);
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    return Fail("{}: expected a regular file, found a pipe", path);
  }
  Result<TrainingGraph> graph = Read(path, stream, status.st_size, options);
  if (!graph) return Within(path, graph.error());
  return graph;
}

Result<TrainingGraph> ParseModel(const std::string& name, std::string_view content, const ModelOptions& options) {
  if (static_cast<Bytes>(content.size()) > kMostFileBytes) return Fail("{}: expected less than 2 GiB", name);
  google::protobuf::io::ArrayInputStream stream(content.data(), static_cast<int>(content.size()));
  Result<TrainingGraph> graph = Read(name, stream, static_cast<Bytes>(content.size()), options);
  if (!graph) return Within(name, graph.error());
  return graph;
}

}  // namespace ebbtide::model::onnx
