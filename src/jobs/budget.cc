// Parses budgets, links and host memory.
#include "jobs/budget.h"

#include <charconv>

#include "base/memory_size.h"
#include "plan/problem.h"

namespace ebbtide::jobs {
namespace {

constexpr double kMostPercent = 1000;

// "60%", "60 %".
Result<double> ParsePercent(const std::string& text) {
  const std::string number = text.substr(0, text.find_last_not_of(" %") + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool parsed = error == std::errc() && end == number.data() + number.size() && text.find('%') + 1 == text.size();
  if (!parsed || !(value > 0 && value <= kMostPercent)) {
    return Fail("--budget {}: expected a percentage of the plain peak, above 0% and at most {}%", text, kMostPercent);
  }
  return value;
}

Result<Bytes> CheckRange(Bytes bytes, const std::string& text) {
  if (bytes <= 0) return Fail("--budget {}: expected more than nothing", text);
  if (bytes > kTooLarge) return Fail("--budget {}: expected less than {}", text, FormatBytes(kTooLarge));
  return bytes;
}

}  // namespace

Result<Budget> ParseBudget(const std::string& text) {
  Budget out{.bytes = {}, .percent = {}, .text = text};
  if (text.empty()) return out;
  if (text.ends_with('%')) {
    EBB_ASSIGN_OR_RETURN(out.percent, ParsePercent(text));
    return out;
  }
  if (!ParseBytes(text)) {
    return Fail("--budget {}: expected a size such as 8GiB, or a share of the plain peak such as 60%", text);
  }
  const Result<Bytes> bytes = ParseMemory(text);
  if (!bytes) return Within("--budget", bytes.error());
  EBB_ASSIGN_OR_RETURN(out.bytes, CheckRange(*bytes, text));
  return out;
}

Result<Bytes> BudgetBytes(const Budget& budget, const DeviceProfile& gpu, Bytes plain_peak) {
  if (budget.bytes) return CheckRange(*budget.bytes, budget.text.empty() ? FormatBytes(*budget.bytes) : budget.text);
  if (!budget.percent) return gpu.memory - gpu.context;
  const auto bytes = static_cast<Bytes>(static_cast<double>(plain_peak) * *budget.percent / 100);
  return CheckRange(bytes, budget.text.empty() ? fmt::format("{}%", *budget.percent) : budget.text);
}

Result<double> ParseLink(const std::string& text) {
  if (text.empty()) return 0.0;
  const bool is_rate = text.ends_with("/s");
  const Result<Bytes> bandwidth = ParseBytes(is_rate ? text.substr(0, text.size() - 2) : text);
  if (!bandwidth || !is_rate || *bandwidth <= 0) {
    return Fail("--link {}: expected bytes per second, as 12GB/s", text);
  }
  return static_cast<double>(*bandwidth);
}

Link LinkOf(const DeviceProfile& gpu, double bandwidth) {
  Link link = ebbtide::LinkOf(gpu);
  if (bandwidth > 0) link.to_device = link.to_host = bandwidth;
  return link;
}

Result<Bytes> ParseHostMemory(const std::string& text) {
  if (text.empty()) return plan::Limits{}.host;
  if (!ParseBytes(text)) return Fail("--host-memory {}: expected a size such as 64GiB", text);
  const Result<Bytes> host = ParseMemory(text);
  if (!host) return Within("--host-memory", host.error());
  return *host;
}

}  // namespace ebbtide::jobs
