// What every fuzzer asks of what it has read, and what it does where that does not hold.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "graph/check.h"
#include "graph/json.h"

namespace ebbtide {

inline void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// A complaint about the file.
inline void RequireOneLine(const std::string& message, const std::string& file = "fuzz", std::size_t most = 1000) {
  Require(message.starts_with(file + ": "), "the file comes first");
  Require(message.size() < most && message.find('\n') == std::string::npos, "one line");
}

inline void RequireGraph(const TrainingGraph& graph) {
  Require(Check(graph).has_value(), "what was read passes Check");
  Require(ParseGraph(ToJson(graph), "fuzz").has_value(), "it can be written as a graph");
}

}  // namespace ebbtide
