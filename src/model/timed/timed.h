// Training steps that others have measured, as MODEL: traces of operators with their times (.json[.gz]) and layer
// profiles as PipeDream writes them (.txt). docs/graph-format.md shows both. Every op of the graph has its own time.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace ebbtide::model::timed {

// Whether JSON text is a timed trace rather than a graph of our own: its outermost object has `ops` and `storages`, and
// no `format` before them. Reads no further than it must, and checks nothing.
bool IsTimedTrace(std::string_view text);

// `name` stands in front of errors: the file the text came from. The graphs pass Check.
Result<TrainingGraph> ParseTrace(std::string_view text, const std::string& name);
Result<TrainingGraph> ParseLayers(std::string_view text, const std::string& name);

Result<TrainingGraph> ReadLayers(const std::string& path);

}  // namespace ebbtide::model::timed
