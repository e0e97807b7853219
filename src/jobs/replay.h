// Replay: an allocation trace through an allocator model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "device/profile.h"
#include "jobs/context.h"
#include "trace/replay.h"

namespace ebbtide::jobs {

struct ReplayRequest {
  std::string path;                     // of a trace (docs/replay.md has the forms)
  std::optional<trace::Trace> in_hand;  // in place of a file
  std::int64_t device = -1;             // of a snapshot of several; -1: the first that has a history
  std::string allocator = "pytorch";    // a name of trace::ReplayModels()
  std::string options;                  // its options, as in PYTORCH_ALLOC_CONF
  std::optional<DeviceProfile> gpu;     // whose memory there is, beside its context
  std::string gpu_name;                 // what results call it; empty: by its own name
  Bytes capacity = 0;                   // device memory in place of a GPU's; 0, and no GPU: no limit
  bool keep_going = false;              // after a request that failed, as a program that catches the error
};

struct ReplayResult {
  trace::Trace trace;
  trace::Replayed replayed;
  std::string allocator;       // the model's name, which options may have chosen
  std::string options;         // as they were given
  std::string gpu;             // empty: only a capacity was given, or nothing
  Bytes capacity = kTooLarge;  // kTooLarge: no limit

  // The first request that failed; null: none did.
  const trace::TraceEvent* failed() const;
  // As the trace calls it; empty of none.
  std::string StreamName(alloc::StreamId stream) const;
  // Whether the device saw what was recorded: the same segments in the same order, and the same peak.
  bool IsExact() const;
};

// Running out of memory is an answer.
Result<ReplayResult> Replay(const ReplayRequest& request, const JobContext& context);

}  // namespace ebbtide::jobs
