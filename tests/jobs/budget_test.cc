// Budgets, links and host memory as people write them.
#include "jobs/budget.h"

#include <gtest/gtest.h>

#include "plan/problem.h"

namespace ebbtide::jobs {
namespace {

DeviceProfile Gpu() {
  DeviceProfile gpu;
  gpu.memory = 1000;
  gpu.context = 100;
  gpu.host_to_device_bandwidth = 3e9;
  gpu.device_to_host_bandwidth = 2e9;
  gpu.copy_latency = 7;
  return gpu;
}

std::string ErrorOf(const std::string& text, Bytes plain_peak = 1000) {
  const auto budget = ParseBudget(text);
  if (!budget) return budget.error().message;
  const auto bytes = BudgetBytes(*budget, Gpu(), plain_peak);
  return bytes ? std::to_string(*bytes) : bytes.error().message;
}

TEST(Budget, IsBytesOrAShareOfThePeakOrTheGpus) {
  EXPECT_EQ(ErrorOf(""), "900");
  EXPECT_EQ(ErrorOf("1KiB"), "1024");
  EXPECT_EQ(ErrorOf("60%"), "600");
  EXPECT_EQ(ErrorOf("12.5 %"), "125");
  EXPECT_EQ(ErrorOf("250%"), "2500");
}

TEST(Budget, SaysWhatWasExpected) {
  constexpr const char* kPercent = "expected a percentage of the plain peak, above 0% and at most 1000%";
  EXPECT_EQ(ErrorOf("much"), "--budget much: expected a size such as 8GiB, or a share of the plain peak such as 60%");
  EXPECT_EQ(ErrorOf("0"), "--budget 0: expected more than nothing");
  EXPECT_EQ(ErrorOf("0%"), std::string("--budget 0%: ") + kPercent);
  EXPECT_EQ(ErrorOf("1001%"), std::string("--budget 1001%: ") + kPercent);
  EXPECT_EQ(ErrorOf("5%%"), std::string("--budget 5%%: ") + kPercent);
  EXPECT_EQ(ErrorOf("1%", 50), "--budget 1%: expected more than nothing");  // half a byte
  EXPECT_EQ(ErrorOf("2EiB"), "--budget 2EiB: expected a size such as 8GiB, or a share of the plain peak such as 60%");
}

TEST(Budget, InHandNeedsNoText) {
  EXPECT_EQ(*BudgetBytes({.bytes = 5, .percent = {}, .text = ""}, Gpu(), 1000), 5);
  EXPECT_EQ(*BudgetBytes({.bytes = {}, .percent = 10, .text = ""}, Gpu(), 1000), 100);
  EXPECT_EQ(BudgetBytes({.bytes = 0, .percent = {}, .text = ""}, Gpu(), 1000).error().message,
            "--budget 0 B: expected more than nothing");
}

TEST(ParseLink, ReplacesBothDirectionsButNotTheLatency) {
  const Link own = LinkOf(Gpu(), *ParseLink(""));
  EXPECT_EQ(own.to_device, 3e9);
  EXPECT_EQ(own.to_host, 2e9);
  const Link given = LinkOf(Gpu(), *ParseLink("12GB/s"));
  EXPECT_EQ(given.to_device, 12e9);
  EXPECT_EQ(given.to_host, 12e9);
  EXPECT_EQ(given.latency, 7);
  for (const char* text : {"12GB", "0B/s", "fast", "/s"}) {
    ASSERT_FALSE(ParseLink(text)) << text;
    EXPECT_EQ(ParseLink(text).error().message, fmt::format("--link {}: expected bytes per second, as 12GB/s", text));
  }
}

TEST(ParseHostMemory, IsAsMuchAsItTakesUnlessGiven) {
  EXPECT_EQ(*ParseHostMemory(""), plan::Limits{}.host);
  EXPECT_EQ(*ParseHostMemory("2KiB"), 2048);
  EXPECT_EQ(ParseHostMemory("x").error().message, "--host-memory x: expected a size such as 64GiB");
}

}  // namespace
}  // namespace ebbtide::jobs
