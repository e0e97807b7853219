// What is known of memory without content: pieces that are written, overwritten in part, copied and forgotten, against
// a map of single bytes.
#include "phantom/core/known.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace ebbtide::phantom {
namespace {

std::vector<std::byte> Of(const char* text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text);
  return {begin, begin + std::strlen(text)};
}

std::string Read(const KnownContent& known, std::uint64_t begin, Bytes bytes, std::uint32_t* origin = nullptr) {
  std::string out(static_cast<std::size_t>(bytes), '?');
  return known.Read(begin, bytes, reinterpret_cast<std::byte*>(out.data()), origin) ? out : "unknown";
}

TEST(Known, PartsThatAreOverwrittenAreCut) {
  KnownContent known;
  known.Write(100, Of("abcdefgh").data(), 8, 0);
  known.Write(102, Of("XY").data(), 2, 7);
  std::uint32_t origin = 0;
  EXPECT_EQ(Read(known, 100, 8, &origin), "abXYefgh");
  EXPECT_EQ(origin, 7u);  // the first assumption among them
  EXPECT_EQ(Read(known, 104, 4, &origin), "efgh");
  EXPECT_EQ(origin, 0u);
  EXPECT_EQ(Read(known, 99, 2), "unknown");
  known.Forget(103, 1);
  EXPECT_EQ(Read(known, 100, 3), "abX");
  EXPECT_EQ(Read(known, 100, 4), "unknown");
  EXPECT_EQ(known.bytes(), 7);
}

TEST(Known, ACopyTakesWhatIsKnownAndForgetsTheRest) {
  KnownContent known;
  known.Write(100, Of("abcd").data(), 4, 3);
  known.Write(200, Of("01234567").data(), 8, 0);
  known.Copy(202, 98, 4);  // two unknown bytes, then "ab"
  EXPECT_EQ(Read(known, 200, 2), "01");
  EXPECT_EQ(Read(known, 202, 1), "unknown");
  EXPECT_EQ(Read(known, 204, 4), "ab67");
}

TEST(Known, NoMoreThanItsLimitIsKept) {
  KnownContent known(10);
  known.Write(0, Of("abcdef").data(), 6, 0);
  known.Write(100, Of("ghijk").data(), 5, 0);  // 11 in all
  EXPECT_EQ(Read(known, 0, 6), "abcdef");
  EXPECT_EQ(Read(known, 100, 5), "unknown");
  known.Write(2, Of("XYZW").data(), 4, 0);  // in the place of others
  EXPECT_EQ(Read(known, 0, 6), "abXYZW");
}

TEST(Known, AgreesWithSingleBytes) {
  constexpr int kAddresses = 64, kSteps = 4000;
  KnownContent known;
  std::map<int, std::byte> expected;
  std::mt19937 random(1);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int step = 0; step < kSteps; ++step) {
    const int begin = below(kAddresses), bytes = 1 + below(kAddresses - begin), from = below(kAddresses - bytes + 1);
    switch (below(4)) {
      case 0:
      case 1: {
        std::vector<std::byte> data(static_cast<std::size_t>(bytes));
        for (int i = 0; i < bytes; ++i) expected[begin + i] = data[static_cast<std::size_t>(i)] = std::byte(below(256));
        known.Write(static_cast<std::uint64_t>(begin), data.data(), bytes, 0);
        break;
      }
      case 2:
        for (int i = 0; i < bytes; ++i) expected.erase(begin + i);
        known.Forget(static_cast<std::uint64_t>(begin), bytes);
        break;
      default: {
        const std::map<int, std::byte> before = expected;
        for (int i = 0; i < bytes; ++i) {
          if (const auto found = before.find(from + i); found != before.end())
            expected[begin + i] = found->second;
          else
            expected.erase(begin + i);
        }
        known.Copy(static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(from), bytes);
      }
    }
    for (int i = 0; i < kAddresses; ++i) {
      std::byte found{};
      ASSERT_EQ(known.Read(static_cast<std::uint64_t>(i), 1, &found), expected.contains(i)) << step << " " << i;
      if (expected.contains(i)) {
        ASSERT_EQ(found, expected[i]) << step << " " << i;
      }
    }
    ASSERT_EQ(known.bytes(), static_cast<Bytes>(expected.size()));
  }
}

}  // namespace
}  // namespace ebbtide::phantom
