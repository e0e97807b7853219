// Reads EBBTIDE_PHANTOM_*.
#include "phantom/core/config.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/json_text.h"

namespace ebbtide::phantom {
namespace {

const char* Environment(const char* name) { return std::getenv(name); }

Result<double> Number(const char* name, std::string_view text, double most) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= most))
    return Fail("{}: expected a number of 0 to {}, found {}", name, most, Quoted(text));
  return value;
}

// The first entry is a number or an identifier. Which one does not matter: there is one device, and it is the one
// meant.
bool NamesADevice(std::string_view list) {
  std::size_t begin = list.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return false;
  list.remove_prefix(begin);
  return (list[0] >= '0' && list[0] <= '9') || list.starts_with("GPU-") || list.starts_with("MIG-");
}

}  // namespace

Result<Config> ReadConfig(const char* (*get)(const char* name)) {
  Config config;
  auto text = [&](const char* name) {
    const char* value = get(name);
    return std::string(value ? value : "");
  };
  auto number = [&](const char* name, double most) -> Result<double> {
    std::string value = text(name);
    return value.empty() ? Result<double>(0.0) : Number(name, value, most);
  };

  if (std::string profile = text("EBBTIDE_PHANTOM_PROFILE"); !profile.empty()) config.profile = profile;
  config.output = text("EBBTIDE_PHANTOM_OUTPUT");
  std::error_code ignored;
  if (!config.output.empty()) config.output = std::filesystem::absolute(config.output, ignored).string();
  config.log = text("EBBTIDE_PHANTOM_LOG");
  config.shared = text("EBBTIDE_PHANTOM_SHARED");
  if (config.shared.find('/') != std::string::npos || config.shared.size() > 200)
    return Fail("EBBTIDE_PHANTOM_SHARED: expected a short name without '/', found {}", Quoted(config.shared));

  auto faults = ParseFaults(text("EBBTIDE_PHANTOM_FAIL"));
  if (!faults) return Within("EBBTIDE_PHANTOM_FAIL", faults.error());
  config.faults = std::move(*faults);

  EBB_ASSIGN_OR_RETURN(double jitter, number("EBBTIDE_PHANTOM_JITTER_US", 1e7));
  config.jitter = static_cast<Nanos>(jitter * 1000);
  EBB_ASSIGN_OR_RETURN(double kernel, number("EBBTIDE_PHANTOM_KERNEL_US", 1e9));
  config.kernel_time = static_cast<Nanos>(kernel * 1000);
  EBB_ASSIGN_OR_RETURN(double seed, number("EBBTIDE_PHANTOM_SEED", 9e15));
  config.seed = static_cast<std::uint64_t>(seed);

  if (std::string backed = text("EBBTIDE_PHANTOM_BACKED"); !backed.empty()) {
    auto bytes = ParseBytes(backed);
    if (!bytes) return Within("EBBTIDE_PHANTOM_BACKED", bytes.error());
    config.backed = *bytes;
  }
  std::string check = text("EBBTIDE_PHANTOM_CHECK");
  if (!check.empty() && check != "race" && check != "0")
    return Fail("EBBTIDE_PHANTOM_CHECK: expected race, found {}", Quoted(check));
  config.check_races = check == "race";
  std::string times = text("EBBTIDE_PHANTOM_TIMES");
  if (!times.empty() && times != "model" && times != "0")
    return Fail("EBBTIDE_PHANTOM_TIMES: expected model, found {}", Quoted(times));
  config.model_times = times == "model";
  std::string real_time = text("EBBTIDE_PHANTOM_REAL_TIME");
  if (!real_time.empty() && real_time != "0" && real_time != "1")
    return Fail("EBBTIDE_PHANTOM_REAL_TIME: expected 0 or 1, found {}", Quoted(real_time));
  config.real_time = real_time == "1";
  if (const char* visible = get("CUDA_VISIBLE_DEVICES")) config.hidden = !NamesADevice(visible);
  return config;
}

const Config& TheConfig() {
  static const Config* config = [] {
    auto read = ReadConfig(&Environment);
    if (!read) {
      std::fprintf(stderr, "phantom: %s\n", read.error().message.c_str());
      _exit(2);
    }
    return new Config(std::move(*read));
  }();
  return *config;
}

}  // namespace ebbtide::phantom
