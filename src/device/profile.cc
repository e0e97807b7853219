// The table of a profile's fields with their bounds, and the built-in profiles, which are compiled in.
#include "device/profile.h"

#include <algorithm>
#include <variant>

#include "base/file.h"
#include "base/json_reader.h"
#include "base/json_text.h"
#include "base/nearest.h"
#include "device/built_in_profiles.h"

namespace ebbtide {

namespace {

// One row per number of a profile: where it goes and what is believable. Absurd values are refused, not simulated.
struct Field {
  const char* name;
  std::variant<std::int64_t DeviceProfile::*, double DeviceProfile::*> member;
  double least, most;
  bool required;
};

constexpr double kTera = 1e12, kGiga = 1e9;

const Field kFields[] = {
    {"memory_bytes", &DeviceProfile::memory, 64.0 * kMiB, 4096.0 * kGiB, true},
    {"context_bytes", &DeviceProfile::context, 0, 8.0 * kGiB, true},
    {"compute_major", &DeviceProfile::compute_major, 3, 99, true},
    {"compute_minor", &DeviceProfile::compute_minor, 0, 9, true},
    {"multiprocessors", &DeviceProfile::multiprocessors, 1, 4096, true},
    {"threads_per_multiprocessor", &DeviceProfile::threads_per_multiprocessor, 512, 8192, true},
    {"blocks_per_multiprocessor", &DeviceProfile::blocks_per_multiprocessor, 1, 256, true},
    {"registers_per_multiprocessor", &DeviceProfile::registers_per_multiprocessor, 16384, 1048576, false},
    {"shared_memory_per_block", &DeviceProfile::shared_memory_per_block, 16.0 * kKiB, 1.0 * kMiB, false},
    {"shared_memory_per_block_optin", &DeviceProfile::shared_memory_per_block_optin, 16.0 * kKiB, 1.0 * kMiB, true},
    {"shared_memory_per_multiprocessor", &DeviceProfile::shared_memory_per_multiprocessor, 16.0 * kKiB, 1.0 * kMiB,
     true},
    {"l2_cache_bytes", &DeviceProfile::l2_cache, 64.0 * kKiB, 1.0 * kGiB, true},
    {"clock_khz", &DeviceProfile::clock_khz, 1e5, 1e7, true},
    {"memory_clock_khz", &DeviceProfile::memory_clock_khz, 1e5, 1e8, true},
    {"memory_bus_bits", &DeviceProfile::memory_bus_bits, 32, 16384, true},
    {"float32_flops", &DeviceProfile::float32_flops, 0.01 * kTera, 1e4 * kTera, true},
    {"tf32_flops", &DeviceProfile::tf32_flops, 0, 1e5 * kTera, false},
    {"float16_flops", &DeviceProfile::float16_flops, 0.01 * kTera, 1e5 * kTera, true},
    {"bfloat16_flops", &DeviceProfile::bfloat16_flops, 0, 1e5 * kTera, false},
    {"float64_flops", &DeviceProfile::float64_flops, 0.001 * kTera, 1e4 * kTera, true},
    {"memory_bandwidth", &DeviceProfile::memory_bandwidth, 1 * kGiga, 1e5 * kGiga, true},
    {"host_to_device_bandwidth", &DeviceProfile::host_to_device_bandwidth, 0.1 * kGiga, 1e4 * kGiga, true},
    {"device_to_host_bandwidth", &DeviceProfile::device_to_host_bandwidth, 0.1 * kGiga, 1e4 * kGiga, true},
    {"copy_latency_ns", &DeviceProfile::copy_latency, 0, 1e9, true},
    {"launch_latency_ns", &DeviceProfile::launch_latency, 0, 1e9, true},
    {"link_bandwidth", &DeviceProfile::link_bandwidth, 0, 1e5 * kGiga, false},
    {"link_latency_ns", &DeviceProfile::link_latency, 0, 1e9, false},
    {"network_bandwidth", &DeviceProfile::network_bandwidth, 0.01 * kGiga, 1e5 * kGiga, false},
    {"network_latency_ns", &DeviceProfile::network_latency, 0, 1e9, false},
    {"machine_gpus", &DeviceProfile::machine_gpus, 1, 1024, false},
};

constexpr std::string_view kFormat = "ebbtide.profile";
constexpr Bytes kLargestFile = 1 * kMiB;

// {"value": 108, "source": "..."}
void ReadNumber(JsonReader& in, const Field& field, DeviceProfile& profile) {
  bool has_value = false;
  in.BeginObject("{\"value\": number, \"source\": text}");
  while (in.NextKey()) {
    if (in.key() == "source") {
      profile.sources[field.name] = in.String("where the number comes from");
      continue;
    }
    if (in.key() != "value") {
      in.FailWith("expected \"value\" or \"source\"");
      continue;
    }
    JsonReader::Number number = in.AnyNumber();
    has_value = true;
    bool whole = std::holds_alternative<std::int64_t DeviceProfile::*>(field.member);
    if (!(number.real >= field.least && number.real <= field.most) || (whole && !number.is_integer)) {
      in.FailLast(
          fmt::format("{} from {:.6g} to {:.6g}", whole ? "a whole number" : "a number", field.least, field.most));
    } else if (auto* member = std::get_if<std::int64_t DeviceProfile::*>(&field.member)) {
      profile.*(*member) = number.integer;
    } else {
      profile.*std::get<double DeviceProfile::*>(field.member) = number.real;
    }
  }
  if (in.ok() && !has_value) in.FailWith(fmt::format("{}: expected a value", field.name));
}

}  // namespace

Result<DeviceProfile> ParseProfile(std::string_view text, const std::string& place) {
  DeviceProfile profile;
  std::vector<std::string> seen;
  JsonReader in(text);
  in.BeginObject();
  while (in.NextKey()) {
    std::string key(in.key());
    const Field* field = std::ranges::find_if(kFields, [&](const Field& f) { return f.name == key; });
    if (std::ranges::count(seen, key)) {
      in.FailWith("the field stands twice");
    } else if (key == "format") {
      if (in.String("\"ebbtide.profile\"") != kFormat) in.FailLast("\"ebbtide.profile\"");
    } else if (key == "version") {
      in.Integer("version 1", 1, 1);
    } else if (key == "name") {
      profile.name = in.String("a name");
    } else if (key == "product") {
      profile.product = in.String("a name");
    } else if (field != std::end(kFields)) {
      ReadNumber(in, *field, profile);
    } else {
      in.FailWith("not a field of a profile");
    }
    seen.push_back(std::move(key));
  }
  in.End();
  if (!in.ok()) return Within(place, in.error());
  for (const char* name : {"format", "version", "name", "product"}) {
    if (!std::ranges::count(seen, name)) return Fail("{}: the field {} is missing", place, name);
  }
  for (const Field& field : kFields) {
    if (field.required && !std::ranges::count(seen, field.name))
      return Fail("{}: the field {} is missing", place, field.name);
  }
  if (profile.context >= profile.memory) return Fail("{}: context_bytes: expected less than memory_bytes", place);
  return profile;
}

namespace {

// "NVIDIA A100" is asked for as A100.
std::string_view WithoutMaker(std::string_view name) {
  for (const std::string_view word : {"nvidia", "tesla", "quadro"}) {
    const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
    if (name.size() > word.size() && std::ranges::equal(name.substr(0, word.size()), word, same)) {
      name.remove_prefix(word.size() + (std::string_view(" -_").find(name[word.size()]) != std::string_view::npos));
    }
  }
  return name;
}

}  // namespace

Result<DeviceProfile> FindProfile(const std::string& name_or_path) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json")) {
    EBB_ASSIGN_OR_RETURN(std::string text, ReadFile(name_or_path, kLargestFile));
    return ParseProfile(text, name_or_path);
  }
  std::vector<std::string> names;
  for (const DeviceProfile& profile : BuiltInProfiles()) {
    if (profile.name == name_or_path) return profile;
    names.push_back(profile.name);
  }
  return Fail("GPU {}: expected a name that `ebbtide gpus` lists, or the path of a profile file{}",
              Quoted(name_or_path), DidYouMean(WithoutMaker(name_or_path), names));
}

const std::vector<DeviceProfile>& BuiltInProfiles() {
  static const auto* profiles = [] {
    auto* all = new std::vector<DeviceProfile>;
    for (auto [file, text] : kBuiltInProfileTexts) {
      Result<DeviceProfile> profile = ParseProfile(text, std::string(file));
      if (!profile) {  // tests/device reads every file, so this cannot happen in a build that passed them
        fmt::print(stderr, "ebbtide: {}\n", profile.error().message);
        std::abort();
      }
      all->push_back(*std::move(profile));
    }
    std::ranges::sort(*all, {}, &DeviceProfile::name);
    return all;
  }();
  return *profiles;
}

}  // namespace ebbtide
