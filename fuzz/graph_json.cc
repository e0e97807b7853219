// The reader of graph files: whatever the bytes are, a graph that passes Check or one line of complaint. A graph that
// was read is written and read again, and every function that takes a checked graph runs on it.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/gzip.h"
#include "fuzz/require.h"
#include "graph/json.h"
#include "graph/summary.h"

using namespace ebbtide;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  if (IsGzip(text)) {
    auto content = Gunzip(text, kMiB);
    if (!content) return 0;
    text = std::move(*content);
  }
  const auto graph = ParseGraph(text, "fuzz");
  if (!graph) {
    RequireOneLine(graph.error().message);
    return 0;
  }
  const std::string canonical = ToJson(*graph);
  const auto again = ParseGraph(canonical, "fuzz");
  Require(again.has_value(), "canonical text is read");
  Require(ToJson(*again) == canonical, "canonical text stays as it is");

  const auto lifetimes = ComputeLiveness(*graph);
  const Releases releases(*graph, lifetimes);
  for (std::size_t i = 0; i < graph->ops.size(); ++i) {
    for (const StorageId id : releases.After(OpId(i))) Require(lifetimes[id.index()].LivesDuring(OpId(i)), "it lived");
  }
  Require(Summarize(*graph).peak == PeakLiveBytes(*graph, lifetimes), "one peak");
  return 0;
}
