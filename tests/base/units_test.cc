// Sizes and counts: what is printed can be read, and what is read is exact.
#include "base/units.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "base/memory_size.h"

namespace ebbtide {
namespace {

TEST(FormatBytes, KeepsTwoDecimalsOfTheLargestUnit) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(3 * kGiB / 2), "1.50 GiB");
  EXPECT_EQ(FormatBytes(-3 * kMiB), "-3.00 MiB");
}

TEST(FormatBytes, NeverPrints1024OfAUnit) {
  // One byte below 1 MiB is 1023.999 KiB, which two decimals would round to 1024.00 KiB.
  EXPECT_EQ(FormatBytes(kMiB - 1), "1.00 MiB");
  // 1023.99 KiB = 1048565.76 B.
  EXPECT_EQ(FormatBytes(1'048'566), "1023.99 KiB");
}

TEST(FormatBytes, TakesTheLargestAndTheSmallest) {
  // 2^63 B = 8 * 2^60 B.
  EXPECT_EQ(FormatBytes(std::numeric_limits<Bytes>::max()), "8.00 EiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<Bytes>::min()), "-8.00 EiB");
}

TEST(FormatCount, KeepsThreeDigits) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(512), "512");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1.00 K");
  EXPECT_EQ(FormatCount(25'557'032), "25.6 M");
  EXPECT_EQ(FormatCount(4.089e9), "4.09 G");
  EXPECT_EQ(FormatCount(138'357'544), "138 M");
  EXPECT_EQ(FormatCount(999'600), "1.00 M");
}

TEST(ParseBytes, BinaryUnitsHaveAnI) {
  EXPECT_EQ(ParseBytes("8GiB"), 8 * kGiB);
  EXPECT_EQ(ParseBytes("512 MiB"), 512 * kMiB);
  EXPECT_EQ(ParseBytes("12GB"), Bytes{12'000'000'000});
  EXPECT_EQ(ParseBytes("1024"), Bytes{1024});
  EXPECT_EQ(ParseBytes("7 b"), Bytes{7});
  EXPECT_EQ(ParseBytes("3kib"), 3 * kKiB);
}

TEST(ParseBytes, ALetterAloneIsBinary) {
  EXPECT_EQ(ParseBytes("8G"), 8 * kGiB);
  EXPECT_EQ(ParseBytes("512 m"), 512 * kMiB);
  EXPECT_EQ(ParseBytes("1.5T"), 1536 * kGiB);
  EXPECT_EQ(ParseBytes("3k"), 3 * kKiB);
}

TEST(ParseMemory, AsksForAUnitWhereNobodyMeansBytes) {
  const Result<Bytes> eight = ParseMemory("8");
  ASSERT_FALSE(eight);
  EXPECT_EQ(eight.error().message, "'8': expected a unit, as 8GiB or 8MiB (8B if bytes are meant)");
  EXPECT_FALSE(ParseMemory("127"));
  EXPECT_EQ(ParseMemory("128"), Bytes{128});
  EXPECT_EQ(ParseMemory("8B"), Bytes{8});
  EXPECT_EQ(ParseMemory("8G"), 8 * kGiB);
  EXPECT_EQ(ParseMemory("0"), Bytes{0});  // what that means, its flag says
}

TEST(ParseBytes, FractionsRoundDown) {
  EXPECT_EQ(ParseBytes("1.5GiB"), 3 * kGiB / 2);
  // 0.1 * 1024 = 102.4
  EXPECT_EQ(ParseBytes("0.1KiB"), Bytes{102});
  EXPECT_EQ(ParseBytes("0.9999999999999999999999999999 B"), Bytes{0});
}

TEST(ParseBytes, SaysWhatWasExpected) {
  for (const char* text : {"", " ", "GiB", "-1GiB", "8 GiB x", "1.GiB", ".5GiB", "1e9", "0x10", "8GiBB", "1,5GiB"}) {
    const Result<Bytes> bytes = ParseBytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().message,
              "'" + std::string(text) + "': expected a size such as 8GiB, 1.5GiB, 512 MiB, 12GB or 1024 (bytes)");
  }
}

TEST(ParseBytes, NoticesOverflow) {
  // 2^63 - 1 is the largest; 8388608 TiB = 2^23 * 2^40 = 2^63 is one too many.
  EXPECT_EQ(ParseBytes("9223372036854775807"), std::numeric_limits<Bytes>::max());
  EXPECT_EQ(ParseBytes("8388607TiB"), Bytes{8'388'607} * 1024 * kGiB);
  for (const char* text : {"9223372036854775808", "8388608TiB", "99999999999999999999999999"}) {
    const Result<Bytes> bytes = ParseBytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().message, "'" + std::string(text) + "': expected a size below 8 EiB");
  }
}

RC_GTEST_PROP(ParseBytes, ReadsEveryIntegerBack, (std::int64_t bytes)) {
  RC_PRE(bytes >= 0);
  RC_ASSERT(ParseBytes(std::to_string(bytes)) == bytes);
}

// Two decimals of a unit: off by half a hundredth of it, and a byte for rounding down.
RC_GTEST_PROP(ParseBytes, ReadsWhatIsPrintedToHalfAHundredthOfTheUnit, ()) {
  const auto bytes = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 50);
  const std::string printed = FormatBytes(bytes);
  const Result<Bytes> read = ParseBytes(printed);
  RC_ASSERT(read.has_value());
  const Bytes unit = *ParseBytes("1" + printed.substr(printed.find(' ')));
  const Bytes difference = *read > bytes ? *read - bytes : bytes - *read;
  RC_ASSERT(difference <= unit / 200 + 1);
}

TEST(CheckedArithmetic, IsEmptyOnOverflow) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(CheckedMul(3, -4), -12);
  EXPECT_EQ(CheckedMul(kMax, 2), std::nullopt);
  EXPECT_EQ(CheckedAdd(kMax, 0), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
}

}  // namespace
}  // namespace ebbtide
