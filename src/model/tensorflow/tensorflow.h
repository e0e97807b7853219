// The TensorFlow front end: a graph or SavedModel becomes the training step that TensorFlow's executor would run.
// docs/tensorflow.md says how.
//
//   wire.h       bytes to structure: what is kept of the file, bounded
//   graph_def.h  structure to nodes and functions
//   inline.h     functions and loops written out, shapes found (operators.h, shapes*.cc, fold.h)
//   gradient.h   the gradient of a graph that has none
//   simplify.h   what Grappler changes of it
//   schedule.h   the order of the executor
//   lower.h      to a TrainingGraph, with the buffers that kernels hand on
//   translate.h  a built-in model as a graph
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "model/model.h"

namespace ebbtide::model::tensorflow {

// Whether it is one of TensorFlow's: `something.pb` or `something.pb.gz` by name, or a folder that holds a
// saved_model.pb.
bool IsModelPath(const std::string& path);

// Refuses what is not modelled for TensorFlow.
Status CheckOptions(const ModelOptions& options);

// Errors begin with the path. Variables beside the file are not opened.
Result<TrainingGraph> ReadModel(const std::string& path, const ModelOptions& options);
// The same for a file that is in memory. Errors begin with `name`.
Result<TrainingGraph> ParseModel(const std::string& name, std::string_view content, const ModelOptions& options);

// A built-in model as TensorFlow would run it: `graph` is its step with the kernels of CUDA, of which the forward pass
// counts.
Result<TrainingGraph> ConvertModel(const TrainingGraph& graph, const ModelOptions& options);

}  // namespace ebbtide::model::tensorflow
