// Pickles: plain values are read, everything that would execute something or lie about its size is refused.
#include "trace/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/trace.h"

namespace ebbtide::trace {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

std::string ErrorOf(const std::string& content) {
  const auto pickle = Pickle::Parse(content, "p");
  return pickle ? "no error" : pickle.error().message;
}

TEST(Pickle, PlainValuesAreRead) {
  // {"a": [1, -2, 300, 2**40, True, None, (5, "x")], "b": same list}, as protocol 4 writes it.
  const std::string content =
      "\x80\x04}\x94(\x8c\x01"
      "a\x94]\x94(K\x01J\xfe\xff\xff\xffM\x2c\x01\x8a\x06\x00\x00\x00\x00\x00\x01\x88NK\x05\x8c\x01"
      "x\x94\x86\x94"
      "e\x8c\x01"
      "b\x94h\x02u."s;
  const auto pickle = Pickle::Parse(content, "p");
  ASSERT_TRUE(pickle) << pickle.error().message;
  const Pickle::Value list = pickle->Find(pickle->root(), "a");
  ASSERT_TRUE(pickle->Is(list, Pickle::Type::kList));
  EXPECT_EQ(pickle->Find(pickle->root(), "b"), list);
  EXPECT_EQ(pickle->Find(pickle->root(), "c"), Pickle::kMissing);
  std::vector<std::int64_t> numbers;
  for (auto item = pickle->First(list); item != Pickle::kMissing; item = pickle->Next(item)) {
    if (pickle->Is(pickle->At(item), Pickle::Type::kInteger)) numbers.push_back(pickle->integer(pickle->At(item)));
  }
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, -2, 300, std::int64_t{1} << 40}));
}

TEST(Pickle, NothingIsExecuted) {
  // os.system("..."), in the old and in the new way of naming it.
  EXPECT_THAT(ErrorOf("\x80\x02"
                      "cos\nsystem\nX\x02\x00\x00\x00id\x85R."s),
              HasSubstr("p: byte 2: "));
  EXPECT_THAT(ErrorOf("\x80\x04\x8c\x02os\x8c\x06system\x93."s), HasSubstr("opcode 0x93, which is not executed here"));
  for (const char opcode : "RbioP\x81\x82\x92\x97Q"s) EXPECT_NE(ErrorOf("\x80\x04NN"s + opcode + "."), "no error");
}

TEST(Pickle, DamagedFilesAreRefused) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("the end of the file"));
  EXPECT_THAT(ErrorOf("\x80\x04]"s), HasSubstr("the end of the file"));
  EXPECT_THAT(ErrorOf("\x80\x09N."s), HasSubstr("protocol"));
  EXPECT_THAT(ErrorOf("\x80\x04."s), HasSubstr("more values"));
  EXPECT_THAT(ErrorOf("\x80\x04NN."s), HasSubstr("one value"));
  EXPECT_THAT(ErrorOf("\x80\x04h\x07."s), HasSubstr("memo"));
  EXPECT_THAT(ErrorOf("\x80\x04Nr\xff\xff\xff\x7f."s), HasSubstr("memo"));
  EXPECT_THAT(ErrorOf("\x80\x04"
                      "e."s),
              HasSubstr("mark"));
  EXPECT_THAT(ErrorOf("\x80\x04N(Ne."s), HasSubstr("expected a list"));
  EXPECT_THAT(ErrorOf("\x80\x04}(Nu."s), HasSubstr("a value for every key"));
  EXPECT_THAT(ErrorOf("\x80\x04](a."s), HasSubstr("more values"));
  EXPECT_THAT(ErrorOf("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
                      "x."s),
              HasSubstr("expected a text"));
  EXPECT_THAT(ErrorOf("\x80\x04\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."s), HasSubstr("64 bits"));
}

TEST(Pickle, DepthAndCirclesAreNoMatter) {
  std::string deep = "\x80\x04"s + std::string(1'000'000, ']') + std::string(999'999, 'a') + ".";
  EXPECT_TRUE(Pickle::Parse(deep, "p"));
  EXPECT_TRUE(
      Pickle::Parse("\x80\x04]\x94h\x00"
                    "a."s,
                    "p"));  // a list that holds itself
}

TEST(TorchSnapshot, OtherPicklesAreRefused) {
  EXPECT_THAT(ParseTorchSnapshot("\x80\x04]."s, "p", {}).error().message, HasSubstr("expected a snapshot"));
  EXPECT_THAT(ParseTorchSnapshot("\x80\x04}\x8c\x0d"
                                 "device_traces]s."s,
                                 "p", {})
                  .error()
                  .message,
              HasSubstr("no history"));
}

}  // namespace
}  // namespace ebbtide::trace
