// Reads EBBTIDE_PHANTOM_*.
#include "phantom/core/config.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string_view>

#include "base/json_text.h"

namespace ebbtide::phantom {
namespace {

constexpr int kMostGpus = 64;

const char* Environment(const char* name) { return std::getenv(name); }

Result<double> Number(const char* name, std::string_view text, double most) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= most))
    return Fail("{}: expected a number of 0 to {}, found {}", name, most, Quoted(text));
  return value;
}

// The GPUs that CUDA_VISIBLE_DEVICES names, up to the first entry that names none, as the driver has it. The only GPU
// of a machine is what every number and every identifier means: programs are started with those of another machine. Of
// several, an identifier is told by its last two digits (attributes.h).
std::vector<int> Visible(std::string_view list, int gpus) {
  std::vector<int> found;
  while (!list.empty()) {
    std::string_view word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    while (!word.empty() && (word[0] == ' ' || word[0] == '\t')) word.remove_prefix(1);
    const bool is_id = word.starts_with("GPU-") || word.starts_with("MIG-");
    if (!is_id && (word.empty() || word[0] < '0' || word[0] > '9')) break;
    if (is_id && word.size() > 6) word.remove_prefix(word.size() - 2);
    int number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number, is_id ? 16 : 10);
    if (gpus == 1) number = 0;
    if (number >= gpus || std::find(found.begin(), found.end(), number) != found.end()) break;
    found.push_back(number);
  }
  return found;
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
  if (const std::string gpus = text("EBBTIDE_PHANTOM_GPUS"); !gpus.empty()) {
    EBB_ASSIGN_OR_RETURN(const double count, number("EBBTIDE_PHANTOM_GPUS", kMostGpus));
    if (count < 1) return Fail("EBBTIDE_PHANTOM_GPUS: expected a number of 1 to {}, found {}", kMostGpus, Quoted(gpus));
    config.gpus = static_cast<int>(count);
  }
  config.alone = text("EBBTIDE_PHANTOM_ALONE") == "1";
  config.visible.resize(static_cast<std::size_t>(config.gpus));
  std::iota(config.visible.begin(), config.visible.end(), 0);
  if (const char* visible = get("CUDA_VISIBLE_DEVICES")) {
    const std::vector<int> named = Visible(visible, config.gpus);
    config.hidden = named.empty();
    if (!named.empty()) config.visible = named;
  }
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
