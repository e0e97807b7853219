// The MXNet front end: a symbol (1.x, `-symbol.json`) becomes the training step that MXNet's executor would run.
// docs/mxnet.md says how.
//
//   symbol.h     nodes, the outputs they read and their attributes; from JSON
//   bind.h       shapes of data and labels, which the file does not hold
//   shapes.h     shapes of everything else
//   operators.h  the operators as a table: what their gradients read, what they are called in a TrainingGraph
//   gradient.h   the gradient of a symbol, as MXNet's pass makes it, and the order in which all of it runs
//   lower.h      to a TrainingGraph
//   translate.h  a built-in model as a symbol
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "model/model.h"

namespace ebbtide::model::mxnet {

// Whether it is a symbol by its name: `something-symbol.json`, also with .gz behind it.
bool IsSymbolFile(std::string_view path);

// Refuses what is not modelled for MXNet.
Status CheckOptions(const ModelOptions& options);

// Errors begin with the path. The weights beside the file are not opened.
Result<TrainingGraph> ReadModel(const std::string& path, const ModelOptions& options);
// The same for a text that is in memory. Errors begin with `name`.
Result<TrainingGraph> ParseModel(const std::string& name, std::string_view text, const ModelOptions& options);

// A built-in model as MXNet would run it: `graph` is its step with the kernels of CUDA, of which the forward pass
// counts.
Result<TrainingGraph> ConvertModel(const TrainingGraph& graph, const ModelOptions& options);

}  // namespace ebbtide::model::mxnet
