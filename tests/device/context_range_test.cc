// The range of a context: none where it was measured, else as far as the rule was seen to be off.
#include "device/context_range.h"

#include <gtest/gtest.h>

namespace ebbtide {
namespace {

TEST(ContextRange, AMeasuredContextHasNone) {
  const DeviceProfile gpu = FindProfile("rtx3090").value();
  EXPECT_EQ(ContextRangeOf(gpu).least, 256 * kMiB);
  EXPECT_EQ(ContextRangeOf(gpu).most, 256 * kMiB);
}

// The rule has 133 + 108 x 2048 / 1024 = 349 MiB for an A100. It is 169 for an RTX 4060, where 124 were measured, and
// 346 for an RTX 6000 Ada, where 426 were: 349 x 124 / 169 = 256, 349 x 426 / 346 = 429.
TEST(ContextRange, AContextByTheRuleIsAsFarOffAsElsewhere) {
  const DeviceProfile gpu = FindProfile("a100-40gb").value();
  EXPECT_EQ(gpu.context, 349 * kMiB);
  EXPECT_EQ(ContextRangeOf(gpu).least / kMiB, 256);
  EXPECT_EQ(ContextRangeOf(gpu).most / kMiB, 429);
}

TEST(ContextRange, EveryBuiltInContextSaysWhatItWasMeasuredOn) {
  for (const DeviceProfile& gpu : BuiltInProfiles()) {
    const std::string& source = gpu.sources.at("context_bytes");
    EXPECT_TRUE(source.starts_with("rule, not measured on this GPU") || source.starts_with("measured on")) << gpu.name;
    const ContextRange range = ContextRangeOf(gpu);
    EXPECT_EQ(range.least == range.most, source.starts_with("measured")) << gpu.name;
    EXPECT_LE(range.least, gpu.context) << gpu.name;
    EXPECT_GE(range.most, gpu.context) << gpu.name;
  }
}

}  // namespace
}  // namespace ebbtide
