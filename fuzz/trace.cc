// The readers of traces: whatever the bytes are, a trace that could have happened or one line of complaint. A trace
// that was read goes through every allocator model.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "alloc/make.h"
#include "alloc/replay.h"

namespace {

using namespace ebbtide;

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

void RunThroughAll(const alloc::Trace& trace) {
  for (const alloc::AllocatorModel& model : alloc::AllocatorModels()) {
    for (const Bytes capacity : {64 * kMiB, 16 * kGiB}) {
      alloc::DeviceMemory device({.total = capacity});
      alloc::Streams streams;
      const auto allocator = MakeAllocator({.name = std::string(model.name), .pytorch = {}}, device, streams);
      const auto result = Replay(trace, *allocator, device, streams, {.keep_going = true});
      if (!result) continue;
      Require(device.used() <= capacity && result->usage.reserved_peak <= capacity, "the capacity holds");
      Require(result->usage.reserved >= result->usage.allocated, "what is allocated is reserved");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t half = text.find('\0') == text.npos ? text.size() : text.find('\0');
  const auto trace = data[0] % 3 == 0 ? alloc::ParseOwnTrace(text, "fuzz")
                     : data[0] % 3 == 1
                         ? alloc::ParseTorchEvents(text.substr(0, half), "fuzz", text.substr(half), "fuzz")
                         : alloc::ParseTorchSnapshot(text, "fuzz", {});
  if (!trace) {
    const std::string& message = trace.error().message;
    Require(message.starts_with("fuzz: "), "the file comes first");
    Require(message.size() < 1000 && message.find('\n') == std::string::npos, "one line");
    return 0;
  }
  if (trace->streams.size() < 100) RunThroughAll(*trace);
  return 0;
}
