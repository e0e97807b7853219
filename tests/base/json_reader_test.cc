// The JSON reader, alone and against nlohmann's parser: they accept the same texts and read the same values.
#include "base/json_reader.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "base/json_text.h"

namespace ebbtide {
namespace {

using Json = nlohmann::json;
using Type = JsonReader::Type;

// Any document, as nlohmann would hold it. The depth is bounded by the reader.
Json ReadAny(JsonReader& in) {
  switch (in.Peek()) {
    case Type::kNull: in.Null(); return nullptr;
    case Type::kBool: return in.Bool();
    case Type::kString: return std::string(in.String());
    case Type::kObject: {
      Json object = Json::object();
      in.BeginObject();
      while (in.NextKey()) {
        const std::string key(in.key());
        object[key] = ReadAny(in);
      }
      return object;
    }
    case Type::kList: {
      Json list = Json::array();
      in.BeginList();
      while (in.NextItem()) list.push_back(ReadAny(in));
      return list;
    }
    case Type::kNumber:
    case Type::kNone: break;
  }
  const JsonReader::Number number = in.AnyNumber("a value");
  return number.is_integer ? Json(number.integer) : Json(number.real);
}

Result<Json> Read(std::string_view text) {
  JsonReader in(text);
  Json json = ReadAny(in);
  in.End();
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  return json;
}

std::string Complaint(std::string_view text) {
  const auto json = Read(text);
  return json ? "valid" : json.error().message;
}

TEST(JsonReader, ReadsNumbersExactly) {
  EXPECT_EQ(Read("9223372036854775807"), Json(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(Read("-9223372036854775808"), Json(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(Read("0.1"), Json(0.1));
  EXPECT_EQ(Read("5e-324"), Json(5e-324));
  EXPECT_EQ(Read("1.7976931348623157e308"), Json(1.7976931348623157e308));
  EXPECT_TRUE(std::signbit(Read("-0.0")->get<double>()));
  for (const char* bad : {"01", "1.", ".5", "1e", "1e+", "--1", "+1", "-", "1_000", "0x1", "Infinity", "nan"}) {
    EXPECT_FALSE(Read(bad)) << bad;
  }
}

TEST(JsonReader, ReadsEscapes) {
  EXPECT_EQ(Read(R"("\" \\ \/ \b \f \n \r \t")"), Json("\" \\ / \b \f \n \r \t"));
  EXPECT_EQ(Read(R"("\u0041\u00e9\u6d77\ud83c\udf0a")"), Json("A\xC3\xA9\xE6\xB5\xB7\xF0\x9F\x8C\x8A"));
  EXPECT_EQ(Read("\"\xC3\xA9\\\"\xC3\xA9\""), Json("\xC3\xA9\"\xC3\xA9"));
  for (const char* bad :
       {R"("\x")", R"("\u12")", R"("\u12g4")", R"("\ud83c")", R"("\ud83c\u0041")", R"("\udf0a")", R"("\)", R"("\u)",
        R"("\ud83c\u)", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xC3", "\"\x01\""}) {
    EXPECT_FALSE(Read(bad)) << bad;
  }
}

TEST(JsonReader, AKeyWithEscapesIsNamedInPlaces) {
  EXPECT_EQ(Complaint(R"({"a": {"b\u0063": [1, 2, x]}})"), R"(a.bc[2]: expected a value, found x (line 1, column 26))");
  EXPECT_EQ(Complaint(R"({"a b": {"": [nul]}})"), R"(["a b"][""][0]: expected null, found nul (line 1, column 15))");
}

TEST(JsonReader, SaysWhatItExpects) {
  EXPECT_EQ(Complaint("[1 2]"), "[0]: expected ',' or ']', found 2 (line 1, column 4)");
  EXPECT_EQ(Complaint("{\"a\" 1}"), "a: expected ':', found 1 (line 1, column 6)");
  EXPECT_EQ(Complaint("{a: 1}"), "expected a key in quotes, found a (line 1, column 2)");
  EXPECT_EQ(Complaint("{\"a\": 1,}"), "expected a key in quotes, found \"}\" (line 1, column 9)");
  EXPECT_EQ(Complaint("[1,]"), "[1]: expected a value, found \"]\" (line 1, column 4)");
  EXPECT_EQ(Complaint("[\n\"a"), "[0]: expected '\"', found the end of the text (line 2, column 3)");
  EXPECT_EQ(Complaint("1 1"), "expected the end of the text, found 1 (line 1, column 3)");
}

TEST(JsonReader, RefusesDepthBeyondItsFrames) {
  EXPECT_TRUE(Read(std::string(16, '[') + std::string(16, ']')));
  EXPECT_EQ(Complaint(std::string(17, '[')),
            "[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: nested deeper than 16 levels (line 1, column 17)");
}

TEST(JsonReader, TheFirstErrorSticks) {
  JsonReader in("[1, \"x\", 3]");
  in.BeginList();
  int items = 0;
  for (; in.NextItem(); ++items) in.Integer("a size");
  in.End();
  EXPECT_EQ(items, 2);
  ASSERT_FALSE(in.ok());
  EXPECT_EQ(in.error().message, "[1]: expected a size, found \"x\" (line 1, column 5)");
}

// Documents of all kinds, none deeper than 6 levels.
Json RandomJson(std::mt19937_64& random, int depth) {
  static const std::vector<std::string> kTexts = {"",         "a", "\"", "\\", "\n", "\xC3\xA9", "\xF0\x9F\x8C\x8A",
                                                  "long text"};
  switch (random() % (depth < 6 ? 7 : 5)) {
    case 0: return nullptr;
    case 1: return random() % 2 == 0;
    case 2: return static_cast<std::int64_t>(random());
    case 3:
      return std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())),
                        static_cast<int>(random() % 200) - 150);
    case 4: return kTexts[random() % kTexts.size()];
    case 5: {
      Json list = Json::array();
      for (auto n = random() % 4; n > 0; --n) list.push_back(RandomJson(random, depth + 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (auto n = random() % 4; n > 0; --n) object[kTexts[random() % kTexts.size()]] = RandomJson(random, depth + 1);
      return object;
    }
  }
}

RC_GTEST_PROP(JsonReader, ReadsWhatNlohmannWrites, (std::uint64_t seed, bool ascii)) {
  std::mt19937_64 random(seed);
  const Json json = RandomJson(random, 0);
  const std::string text = json.dump(static_cast<int>(seed % 3) - 1, ' ', ascii);
  const auto read = Read(text);
  RC_ASSERT(read.has_value());
  RC_ASSERT(*read == json);
}

// nlohmann turns integers beyond 64 bits into floats and rounds 1e-999 to 0; we refuse both.
bool HasNumberOutOfRange(const std::string& message) {
  return message.find("64 bits") != std::string::npos || message.find("range of a double") != std::string::npos;
}

TEST(JsonReader, AcceptsWhatNlohmannAccepts) {
  std::mt19937_64 random(11);
  const std::string alphabet = "{}[]\",:0123456789.-+eE\\u \ttruefalsn\xFF\xC3\xA9\n";
  int accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text = RandomJson(random, 2).dump();
    for (auto n = random() % 3; n > 0; --n) {
      const char c = alphabet[random() % alphabet.size()];
      const std::size_t at = random() % (text.size() + 1);
      random() % 2 == 0 || at == text.size() ? void(text.insert(at, 1, c)) : void(text[at] = c);
    }
    const Json expected = Json::parse(text, nullptr, false);
    const auto read = Read(text);
    if (!read && HasNumberOutOfRange(read.error().message)) continue;
    ASSERT_EQ(read.has_value(), !expected.is_discarded()) << text << "\n" << Complaint(text);
    if (!read) continue;
    ASSERT_EQ(*read, expected) << text;
    ++accepted;
  }
  EXPECT_GT(accepted, 10'000);
}

RC_GTEST_PROP(JsonText, FloatsReadBackTheSame, (double value)) {
  RC_PRE(std::isfinite(value));
  std::string text;
  AppendJsonDouble(text, value);
  JsonReader in(text);
  const JsonReader::Number number = in.AnyNumber();
  RC_ASSERT(in.ok());
  RC_ASSERT(!number.is_integer);
  RC_ASSERT(number.real == value);
}

TEST(JsonText, QuotesFitOneShortLine) {
  EXPECT_EQ(Quoted("fc.weight"), "\"fc.weight\"");
  EXPECT_EQ(Quoted("a\nb\xFF"), "\"a\\nb?\"");
  EXPECT_EQ(Quoted(std::string(61, 'x')), "\"" + std::string(60, 'x') + "...\"");
  // A character of two bytes that would begin at the 60th is left out whole.
  EXPECT_EQ(Quoted(std::string(59, 'x') + "\xC3\xA9"), "\"" + std::string(59, 'x') + "...\"");
}

}  // namespace
}  // namespace ebbtide
