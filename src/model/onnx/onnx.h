// The ONNX front end: an exported model becomes the training step that PyTorch would run. docs/onnx.md says how.
//
//   wire.h      bytes to structure: what is kept of the file, bounded
//   file.h      structure to nodes, names and constants
//   patterns/   operators that exporters spell out, put back together
//   analysis.h  which initializers are parameters
//   lower.h     operators to ATen ops, with shapes and the arithmetic on them (fold.h)
//   inputs.h    symbolic sizes bound by the options
//   loss.h      what is minimised
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "model/model.h"

namespace ebbtide::model::onnx {

// Weights are not read and external data is not opened. Errors begin with the path.
Result<TrainingGraph> ReadModel(const std::string& path, const ModelOptions& options);

// The same for a file that is in memory. Errors begin with `name`.
Result<TrainingGraph> ParseModel(const std::string& name, std::string_view content, const ModelOptions& options);

}  // namespace ebbtide::model::onnx
