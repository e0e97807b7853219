// The small readers: plans, GPU profiles, timelines of memory, options of PyTorch's allocator, sizes, traces of jobs.
// Whatever the bytes are, a value or one line of complaint.
#include <cstdint>
#include <string>
#include <string_view>

#include "alloc/pytorch_options.h"
#include "base/units.h"
#include "cluster/trace.h"
#include "device/profile.h"
#include "fuzz/require.h"
#include "plan/plan.h"
#include "report/memory_timeline.h"

using namespace ebbtide;

namespace {

template <class T>
void RequireComplaint(const Result<T>& result) {
  if (!result) RequireOneLine(result.error().message);
}
template <class T>
void RequireShort(const Result<T>& result, std::size_t input) {
  if (!result) Require(result.error().message.size() < 1000 + 4 * input, "a short message");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0: RequireComplaint(plan::ParsePlan(text, "fuzz")); break;
    case 1: RequireComplaint(ParseProfile(text, "fuzz")); break;
    case 2: {
      const auto timeline = report::ParseTimeline(text, "fuzz");
      RequireComplaint(timeline);
      if (timeline && timeline->events < 10'000) report::SampleTimeline(*timeline, 100);
      break;
    }
    case 3: RequireShort(alloc::ParsePytorchOptions(text), size); break;
    case 4: RequireShort(ParseBytes(text), size); break;
    default: RequireComplaint(cluster::ParseTrace(text, "fuzz", ""));
  }
  return 0;
}
