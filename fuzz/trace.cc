// The readers of traces: whatever the bytes are, a trace that could have happened or one line of complaint. A trace
// that was read goes through every allocator model.
#include <cstdint>
#include <string>
#include <string_view>

#include "alloc/make.h"
#include "fuzz/require.h"
#include "trace/held.h"
#include "trace/oom_text.h"
#include "trace/replay.h"

namespace {

using namespace ebbtide;

void RunThroughAll(const trace::Trace& trace) {
  for (const alloc::AllocatorModel& model : trace::ReplayModels()) {
    for (const Bytes capacity : {64 * kMiB, 16 * kGiB, kTooLarge}) {
      alloc::DeviceMemory device({.total = capacity});
      alloc::Streams streams;
      const auto choice = alloc::ChooseAllocator(std::string(model.name), "", trace::ReplayModels());
      Require(choice.has_value(), "every model can be chosen");
      const auto allocator = alloc::MakeAllocator(*choice, device, streams);
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
  for (const trace::OomText& text_of : trace::FindOomTexts(text)) Require(text_of.requested >= 0, "sizes are counted");
  if (const auto held = trace::ReadHeldMemory(text, "fuzz")) {
    Require(held->fragmentation() >= 0, "what is held is reserved");
  } else {
    RequireOneLine(held.error().message);
  }
  const std::size_t half = text.find('\0') == text.npos ? text.size() : text.find('\0');
  const auto trace = data[0] % 3 == 0 ? trace::ParseOwnTrace(text, "fuzz")
                     : data[0] % 3 == 1
                         ? trace::ParseTorchEvents(text.substr(0, half), "fuzz", text.substr(half), "fuzz")
                         : trace::ParseTorchSnapshot(text, "fuzz", {});
  if (!trace) {
    RequireOneLine(trace.error().message);
    return 0;
  }
  if (trace->streams.size() < 100) RunThroughAll(*trace);
  return 0;
}
