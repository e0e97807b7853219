// A trace through an allocator: what it takes from the device, when it runs out, and how that compares with what the
// trace itself recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "alloc/make.h"
#include "trace/trace.h"

namespace ebbtide::trace {

struct ReplayOptions {
  bool keep_going = false;  // after a request that failed, as a program that catches the error; its free is passed over
  // Where a recorded segment was placed is used for the next segment of that size: the driver's choice, not the
  // allocator's, though ties between free blocks follow from it.
  bool recorded_placement = true;
  // Segments that went back in the recording did so because the program emptied the cache, unless the allocator could
  // have done it itself for want of memory. False: never, it was the allocator's doing.
  bool releases_are_the_programs = true;
  std::function<bool()> stop = {};  // asked now and then; true: the replay fails with ErrorKind::kStopped
};

// What the trace says of the device.
struct RecordedDevice {
  bool out_of_memory = false;
  Bytes reserved_peak = 0;
  std::vector<Bytes> segments;
  std::int64_t equal_segments = 0;  // of the replay's, those with the size of the recorded one of the same number
  bool all_equal() const { return equal_segments == static_cast<std::int64_t>(segments.size()); }
};

struct Replayed {
  bool out_of_memory = false;
  std::int64_t failed_event = -1;  // the first one that failed; an index of Trace::events
  alloc::Usage usage;              // device_allocations without those of the initial state
  Bytes initial_reserved = 0;
  std::vector<Bytes> allocated;  // after each event that was replayed
  std::vector<Bytes> reserved;
  std::vector<Bytes> segments;             // sizes taken from the device, in order
  Bytes requested_peak = 0;                // of the bytes asked for, before any rounding
  std::optional<RecordedDevice> recorded;  // where the trace has segments
};

// The models that a trace can run through: those of frameworks and libraries, and Ebbtide's own.
const std::vector<alloc::AllocatorModel>& ReplayModels();

// `allocator` is fresh and stands on `device` and `streams`. Fails where the initial state does not fit the device.
Result<Replayed> Replay(const Trace& trace, alloc::Allocator& allocator, alloc::DeviceMemory& device,
                        alloc::Streams& streams, const ReplayOptions& options = {});

}  // namespace ebbtide::trace
