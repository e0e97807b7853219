// Writes the fields of a replay.
#include "report/json/replay.h"

#include "base/units.h"
#include "report/text/plot.h"

namespace ebbtide::report {
namespace {

using jobs::ReplayResult;

constexpr std::size_t kSamples = 256;

}  // namespace

Json ReplayJson(const ReplayResult& result) {
  const trace::Replayed& replayed = result.replayed;
  Json json = NewResult("replay");
  json["trace"] = result.trace.path;
  json["allocator"] = result.allocator;
  json["alloc_conf"] = result.options;
  json["gpu"] = result.gpu.empty() ? Json(nullptr) : Json(result.gpu);
  json["capacity_bytes"] = result.capacity < kTooLarge ? Json(result.capacity) : Json(nullptr);
  json["events"] = result.trace.events.size();
  json["oom"] = replayed.out_of_memory;
  json["ooms"] = replayed.usage.out_of_memory;
  json["failed_at"] = nullptr;
  if (const trace::TraceEvent* failed = result.failed()) {
    json["failed_at"] = {{result.trace.place_name, failed->place},
                         {"bytes", failed->bytes},
                         {"stream", result.StreamName(failed->stream)}};
  }
  json["peak_reserved_bytes"] = replayed.usage.reserved_peak;
  json["peak_allocated_bytes"] = replayed.usage.allocated_peak;
  json["peak_requested_bytes"] = replayed.requested_peak;
  json["segments"] = replayed.usage.device_allocations;
  json["segments_given_back"] = replayed.usage.device_frees;
  json["final_reserved_bytes"] = replayed.usage.reserved;
  json["final_allocated_bytes"] = replayed.usage.allocated;
  json["segment_bytes"] = replayed.segments;
  json["recorded"] = nullptr;
  if (replayed.recorded) {
    json["recorded"] = {{"oom", replayed.recorded->out_of_memory},
                        {"peak_reserved_bytes", replayed.recorded->reserved_peak},
                        {"segments", replayed.recorded->segments.size()},
                        {"equal_segments", replayed.recorded->equal_segments},
                        {"exact", result.IsExact()}};
  }
  json["reserved_bytes"] = SampleMaxima(replayed.reserved, kSamples);
  json["allocated_bytes"] = SampleMaxima(replayed.allocated, kSamples);
  return json;
}

}  // namespace ebbtide::report
