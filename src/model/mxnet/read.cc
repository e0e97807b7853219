// The stages of the front end in their order, for a file and for a text.
#include <filesystem>

#include "base/file.h"
#include "base/json_text.h"
#include "model/mxnet/lower.h"
#include "model/mxnet/mxnet.h"
#include "model/mxnet/shapes.h"

namespace ebbtide::model::mxnet {
namespace {

constexpr Bytes kMostFileBytes = 64 * kMiB;

Result<TrainingGraph> Build(std::string_view text, const ModelOptions& options) {
  EBB_ASSIGN_OR_RETURN(Symbol symbol, ParseSymbol(text));
  EBB_ASSIGN_OR_RETURN(const std::vector<Role> roles, BindInputs(symbol, options));
  EBB_RETURN_IF_ERROR(InferShapes(symbol, options.batch_size));
  return LowerSymbol(std::move(symbol), roles, options);
}

}  // namespace

bool IsSymbolFile(std::string_view path) { return path.ends_with("-symbol.json") || path.ends_with("-symbol.json.gz"); }

Result<TrainingGraph> ParseModel(const std::string& name, std::string_view text, const ModelOptions& options) {
  Result<TrainingGraph> graph = Build(text, options);
  if (!graph) return Within(name, graph.error());
  const std::string stem = std::filesystem::path(name).stem().string();
  graph->name = IsUtf8(stem) ? stem.substr(0, stem.find("-symbol")) : "model";
  graph->meta["source"] = "mxnet";
  return graph;
}

Result<TrainingGraph> ReadModel(const std::string& path, const ModelOptions& options) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostFileBytes));
  return ParseModel(path, text, options);
}

}  // namespace ebbtide::model::mxnet
