// MODEL of the command line becomes a graph, whatever it names.
#pragma once

#include "base/result.h"
#include "cli/common_flags.h"
#include "graph/graph.h"

namespace ebbtide::cli {

// Loads, captures first where MODEL is a SCRIPT.py:function, and refuses flags that this kind of MODEL makes no use of.
// An error with an empty message was already told to the user by the program we started.
Result<TrainingGraph> Load(const ModelFlags& model, const OutputFlags& output);

// Refuses flags that a SCRIPT.py:function makes no use of.
Status CheckScriptFlags(const ModelFlags& model);

}  // namespace ebbtide::cli
