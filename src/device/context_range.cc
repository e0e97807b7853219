// The GPUs on which somebody measured a context, and how far the rule of the built-in profiles is from them.
#include "device/context_range.h"

#include <algorithm>

namespace ebbtide {
namespace {

// A context as measured, and what the rule (133 MiB and 1 KiB for each resident thread) has for that GPU.
struct Measurement {
  const char* source;
  double measured, by_rule;  // MiB
};
constexpr Measurement kMeasurements[] = {
    {"RTX 4060, torch 2.6, about so much by xMem's traces", 124, 169},
    {"RTX 3090, torch 2.7.1 for CUDA 12.8, InvokeAI #9413", 256, 256},
    {"RTX 6000 Ada, torch 2.10 for CUDA 13.0, unsloth-zoo #1053", 426, 346},
};

// A profile whose context follows from the rule says so in its source.
bool IsByRule(const DeviceProfile& profile) {
  const auto source = profile.sources.find("context_bytes");
  return source != profile.sources.end() && source->second.starts_with("rule");
}

Bytes Scaled(Bytes bytes, double factor) { return static_cast<Bytes>(static_cast<double>(bytes) * factor); }

}  // namespace

ContextRange ContextRangeOf(const DeviceProfile& profile) {
  if (!IsByRule(profile)) return {profile.context, profile.context};
  const auto [least, most] =
      std::ranges::minmax(kMeasurements, {}, [](const Measurement& m) { return m.measured / m.by_rule; });
  return {Scaled(profile.context, least.measured / least.by_rule),
          Scaled(profile.context, most.measured / most.by_rule)};
}

}  // namespace ebbtide
