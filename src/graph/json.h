// The graph file: docs/graph-format.md says what is in it. Reading is strict (unknown, repeated and missing keys are
// errors), and every graph that was read has passed Check. Writing is canonical: equal graphs give equal text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace ebbtide {

inline constexpr std::string_view kGraphFormat = "ebbtide.graph";
inline constexpr int kGraphVersion = 1;

// Text of more than this is refused; a graph of eight million ops has about as much.
inline constexpr Bytes kGraphFileLimit = 4 * kGiB;

// Plain or gzip. Errors begin with the path.
Result<TrainingGraph> ReadGraph(const std::string& path);

// `name` stands in front of errors: the file the text came from.
Result<TrainingGraph> ParseGraph(std::string_view text, const std::string& name);

// Canonical text: keys in the order of the documentation, fields of default value left out, one storage, tensor or
// op per line. ParseGraph gives an equal graph back for every graph that passes Check.
std::string ToJson(const TrainingGraph& graph);

// Checks the graph, then writes its canonical text; compressed where the path ends in .gz.
Status WriteGraph(const TrainingGraph& graph, const std::string& path);

}  // namespace ebbtide
