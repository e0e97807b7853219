// Device memory of a run over time, whatever it comes from: a recording of a program, or a prediction. What the page
// (memory_page.h) and the plot on the terminal are made of.
//
// Time is counted in events, the allocations and frees in their order: what happened matters here, not when.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "report/about.h"

namespace ebbtide::report {

// As torch's MemTracker calls them, in the order in which the page stacks them: what lasts longest lies lowest.
enum class MemoryCategory { kParameter, kBuffer, kOptstate, kOther, kGradient, kActivation, kTemp };
inline constexpr std::size_t kMemoryCategories = 7;
const char* Name(MemoryCategory category);

struct TimedAllocation {
  std::int64_t begin = 0, end = 0;  // events, half-open; end == MemoryTimeline::events: it lives to the end
  Bytes bytes = 0;
  MemoryCategory category = MemoryCategory::kOther;
  int name = -1;   // of texts: "layer1.0.conv1.weight", "conv2d"; -1: none
  int stack = -1;  // of stacks; -1: not known
};

struct TimelineMark {
  std::int64_t at = 0;  // event
  std::string label;    // "step 1"
};

struct MemoryTimeline {
  std::string title;     // the program, the model
  std::string subtitle;  // "phantom a100-40gb, torch 2.15.0"
  About about;           // what it is of
  bool predicted = false;
  Bytes capacity = 0;  // of the device; 0: not known
  Bytes context = 0;   // taken beside all that is listed here
  Bytes peak_reserved = 0, peak_allocated = 0, total = 0;
  std::string reserved_place, allocated_place;  // where each peak was reached: "step 2, train.py:31"

  std::int64_t events = 0;
  std::vector<TimedAllocation> allocations;  // in the order of `begin`
  struct Level {
    std::int64_t at = 0;
    Bytes bytes = 0;  // from that event on
  };
  std::vector<Level> reserved;  // what the allocator holds of the device; in the order of `at`
  std::vector<TimelineMark> marks;
  std::vector<std::string> texts;
  std::vector<std::vector<int>> stacks;  // of texts, innermost first
  std::vector<std::string> failures;     // lines for the banner: out of memory, and where
  std::vector<std::string> notes;
};

// The file that the Python module writes (format "ebbtide.timeline"). Errors begin with the path.
Result<MemoryTimeline> ReadTimeline(const std::string& path);
Result<MemoryTimeline> ParseTimeline(std::string_view text, const std::string& path);

// Bytes by category at one event.
struct TimelineSample {
  std::int64_t at = 0;
  Bytes by_category[kMemoryCategories] = {};
  Bytes reserved = 0;
  Bytes allocated() const {
    Bytes sum = 0;
    for (const Bytes bytes : by_category) sum += bytes;
    return sum;
  }
};

// A part of the events, half-open.
struct EventRange {
  std::int64_t begin = 0, end = 0;
};

// At most `count` samples; each is the event of its share at which most is allocated, so that the peak is among them.
std::vector<TimelineSample> SampleTimeline(const MemoryTimeline& timeline, std::size_t count);
// The same with every event of the range besides.
std::vector<TimelineSample> SampleTimeline(const MemoryTimeline& timeline, std::size_t count, EventRange closely);

// The first event at which most is allocated; -1 where nothing is.
std::int64_t PeakEvent(const MemoryTimeline& timeline);

}  // namespace ebbtide::report
