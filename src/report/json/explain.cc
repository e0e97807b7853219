// Writes the fields of an explanation.
#include "report/json/explain.h"

namespace ebbtide::report {
namespace {

Json OrNull(const std::optional<Bytes>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

}  // namespace

Json ExplainJson(const jobs::ExplainResult& result) {
  Json json = NewResult("explain");
  json["path"] = result.path;
  json["source"] = result.from_log ? "log" : "snapshot";
  json["oom"] = result.out_of_memory;
  json["ooms"] = result.failures;
  json["requested_bytes"] = result.requested;
  json["line"] = result.failed_line;
  json["capacity_bytes"] = OrNull(result.capacity);
  json["available_bytes"] = OrNull(result.available);
  json["allocated_bytes"] = result.allocated;
  json["reserved_bytes"] = result.reserved;
  json["cached_bytes"] = result.cached;
  json["fragmentation_bytes"] = result.fragmentation;
  json["rounding_bytes"] = result.rounding;
  json["outside_pytorch_bytes"] = OrNull(result.outside_pytorch);
  json["other_processes_bytes"] = OrNull(result.other_processes);
  json["held"] = result.held;
  json["largest"] = Json::array();
  for (const jobs::Holder& holder : result.largest) {
    json["largest"].push_back({{"bytes", holder.bytes},
                               {"blocks", holder.blocks},
                               {"line", holder.line},
                               {"function", holder.function},
                               {"module", holder.module},
                               {"category", holder.category}});
  }
  json["iterations_compared"] = result.iterations;
  json["leak_bytes_per_iteration"] = result.leak_per_iteration;
  json["leaks"] = Json::array();
  for (const jobs::LeakedLine& leak : result.leaks) {
    json["leaks"].push_back({{"line", leak.line}, {"bytes_per_iteration", leak.bytes_per_iteration}});
  }
  json["remedies"] = result.remedies;
  json["notes"] = result.notes;
  return json;
}

}  // namespace ebbtide::report
