// An allocation trace: what a program asked of its allocator, in order, and what was recorded of the device then.
// Read from files of three forms (docs/replay.md); whatever the form, a Trace is sound: blocks are freed once and after
// they were allocated, those that live at a time do not overlap, sizes are not negative.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/allocator.h"
#include "base/result.h"

namespace ebbtide::trace {

using alloc::Address;
using alloc::InitialBlock;
using alloc::InitialSegment;
using alloc::StreamId;

enum class Action : std::uint8_t {
  kAllocate,       // block, bytes, stream
  kFree,           // block
  kFreeRequested,  // block: freed, but other streams still use it
  kFreeCompleted,  // block: they no longer do
  kRecordStream,   // block, stream
  kWork,           // stream: has work from here on that is not finished until a kSynchronize
  kSynchronize,    // stream; none: all
  kEmptyCache,
  kSegmentTaken,  // bytes, address: recorded, memory came from the device
  kSegmentGiven,  // bytes, address: recorded, memory went back
  kOutOfMemory,   // bytes: recorded, a request failed
};

struct TraceEvent {
  Action action = Action::kAllocate;
  std::int32_t block = -1;  // from 0 on; every allocation has a number of its own
  StreamId stream;
  Bytes bytes = 0;
  Address address = 0;
  std::int64_t place = 0;  // in the file: a line, or the index of an entry
};

struct Trace {
  std::string path;
  std::string place_name;  // "line" or "entry": what `place` counts
  std::vector<InitialSegment> segments;
  std::vector<TraceEvent> events;
  std::int32_t blocks = 0;           // the first ones are the allocated blocks of `segments`, in order
  std::vector<std::string> streams;  // their names in the file, by StreamId
  bool records_segments = false;     // kSegmentTaken and kSegmentGiven are complete
  bool records_addresses = false;
};

struct TraceOptions {
  std::int64_t device = -1;  // of a snapshot of several; -1: the first that has a history
};

// By what the content looks like: a pickle of torch.cuda.memory._dump_snapshot, the events of such a snapshot as CSV
// (with NAME.initial_blocks.csv[.gz] beside NAME.events.csv[.gz], where there is one), or our own CSV. gzip or plain.
Result<Trace> ReadTrace(const std::string& path, const TraceOptions& options = {});

// The three forms, from text. `path` opens the errors; `initial` is the text of the file beside it, or empty.
Result<Trace> ParseOwnTrace(std::string_view text, const std::string& path);
Result<Trace> ParseTorchEvents(std::string_view text, const std::string& path, std::string_view initial,
                               const std::string& initial_path);
Result<Trace> ParseTorchSnapshot(std::string_view pickle, const std::string& path, const TraceOptions& options);

}  // namespace ebbtide::trace
