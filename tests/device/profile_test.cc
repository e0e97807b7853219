// GPU profiles: the built-in ones hold together, and a user's file is checked field by field.
#include "device/profile.h"

#include <gmock/gmock.h>

namespace ebbtide {
namespace {

using testing::HasSubstr;

// A complete profile, with one field replaced by `line` (or left out where that is empty).
std::string ProfileWith(const std::string& field, const std::string& value) {
  const std::pair<const char*, const char*> fields[] = {{"memory_bytes", "8589934592"},
                                                        {"context_bytes", "268435456"},
                                                        {"compute_major", "8"},
                                                        {"compute_minor", "6"},
                                                        {"multiprocessors", "28"},
                                                        {"threads_per_multiprocessor", "1536"},
                                                        {"blocks_per_multiprocessor", "16"},
                                                        {"shared_memory_per_block_optin", "101376"},
                                                        {"shared_memory_per_multiprocessor", "102400"},
                                                        {"l2_cache_bytes", "3145728"},
                                                        {"clock_khz", "1777000"},
                                                        {"memory_clock_khz", "7501000"},
                                                        {"memory_bus_bits", "192"},
                                                        {"float32_flops", "12.7e12"},
                                                        {"float16_flops", "50e12"},
                                                        {"float64_flops", "0.2e12"},
                                                        {"memory_bandwidth", "360e9"},
                                                        {"host_to_device_bandwidth", "24e9"},
                                                        {"device_to_host_bandwidth", "24e9"},
                                                        {"copy_latency_ns", "8000"},
                                                        {"launch_latency_ns", "2500"}};
  std::string text = R"({"format": "ebbtide.profile", "version": 1, "name": "mine", "product": "My GPU")";
  for (auto [name, usual] : fields) {
    std::string number = name == field ? value : usual;
    if (!number.empty()) text += fmt::format(R"(, "{}": {{"value": {}, "source": "made up"}})", name, number);
  }
  return text + "}";
}

TEST(Profile, AUsersFileIsReadWhole) {
  Result<DeviceProfile> profile = ParseProfile(ProfileWith("", ""), "mine.json");
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->name, "mine");
  EXPECT_EQ(profile->memory, 8 * kGiB);
  EXPECT_EQ(profile->memory_bandwidth, 360e9);
  EXPECT_EQ(profile->sources.at("memory_bytes"), "made up");
}

TEST(Profile, MissingAndAbsurdFieldsAreNamed) {
  auto error = [](const std::string& field, const std::string& value) {
    Result<DeviceProfile> profile = ParseProfile(ProfileWith(field, value), "mine.json");
    return profile ? std::string("accepted") : profile.error().message;
  };
  EXPECT_EQ(error("memory_bytes", ""), "mine.json: the field memory_bytes is missing");
  EXPECT_THAT(error("memory_bytes", "-1"), HasSubstr("mine.json: memory_bytes.value: expected a whole number from"));
  EXPECT_THAT(error("multiprocessors", "2.5"), HasSubstr("multiprocessors.value"));
  EXPECT_THAT(error("memory_bandwidth", "0"), HasSubstr("memory_bandwidth.value"));
  EXPECT_THAT(error("float32_flops", "\"fast\""), HasSubstr("float32_flops.value"));
  EXPECT_THAT(error("context_bytes", "8589934592"), HasSubstr("expected less than memory_bytes"));
}

TEST(Profile, UnknownGpuGetsTheNearestNames) {
  Result<DeviceProfile> profile = FindProfile("rtx306");
  ASSERT_FALSE(profile);
  EXPECT_THAT(profile.error().message, HasSubstr("did you mean rtx3060"));
}

TEST(Profile, EveryBuiltInNumberHasASource) {
  ASSERT_FALSE(BuiltInProfiles().empty());
  for (const DeviceProfile& profile : BuiltInProfiles()) {
    EXPECT_GE(profile.sources.size(), 21u) << profile.name;
    for (const auto& [field, source] : profile.sources) EXPECT_GT(source.size(), 5u) << profile.name << " " << field;
    // The bus moves two bits per clock and line (four with GDDR6X's): the bandwidth cannot exceed that by more.
    double nominal = static_cast<double>(profile.memory_clock_khz) * 1e3 * profile.memory_bus_bits / 8;
    EXPECT_GE(profile.memory_bandwidth, 0.9 * nominal) << profile.name;
    EXPECT_LE(profile.memory_bandwidth, 4.1 * nominal) << profile.name;
  }
}

}  // namespace
}  // namespace ebbtide
