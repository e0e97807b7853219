// Bytes of a pickle, by the opcodes of Python's pickletools, and read back by our own reader.
#include "report/snapshot/pickle_writer.h"

#include <gtest/gtest.h>

#include "trace/pickle.h"

namespace ebbtide::report {
namespace {

using trace::Pickle;
using namespace std::string_literals;

TEST(PickleWriterTest, TextsAreWrittenOnce) {
  PickleWriter out;
  out.BeginList();
  out.Text("ab");
  out.Text("ab");
  out.EndList();
  EXPECT_EQ(std::move(out).Finish(),
            "\x80\x02](X\x02\x00\x00\x00\x61\x62q\x00h\x00"
            "e."s);
}

TEST(PickleWriterTest, IntegersOfEverySizeReadBack) {
  const std::int64_t values[] = {
      0, 255, 256, 65535, 65536, std::int64_t{1} << 31, -1, -70000, -(std::int64_t{1} << 40), std::int64_t{1} << 62};
  PickleWriter out;
  out.BeginDict();
  out.Text("values");
  out.BeginList();
  for (const std::int64_t value : values) out.Integer(value);
  out.EndList();
  out.EndDict();
  const std::string text = std::move(out).Finish();
  const Result<Pickle> read = Pickle::Parse(text, "test");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const Pickle::Value list = read->Find(read->root(), "values");
  std::size_t i = 0;
  for (auto item = read->First(list); item != Pickle::kMissing; item = read->Next(item)) {
    EXPECT_EQ(read->integer(read->At(item)), values[i++]);
  }
  EXPECT_EQ(i, std::size(values));
}

TEST(PickleWriterTest, ListsMayBeWrittenInBatches) {
  PickleWriter out;
  out.BeginList();
  for (int i = 0; i < 7; ++i) {
    out.Integer(i);
    if (i % 3 == 0) out.ContinueList();
  }
  out.EndList();
  const std::string text = std::move(out).Finish();
  const Result<Pickle> read = Pickle::Parse(text, "test");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->size(read->root()), 7U);
}

TEST(PickleWriterTest, MoreThan256ThingsAreRemembered) {
  PickleWriter out;
  out.BeginList();
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 300; ++i) out.Text(std::to_string(i));
  }
  out.EndList();
  const std::string text = std::move(out).Finish();
  const Result<Pickle> read = Pickle::Parse(text, "test");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  int i = 0;
  for (auto item = read->First(read->root()); item != Pickle::kMissing; item = read->Next(item), ++i) {
    EXPECT_EQ(read->text(read->At(item)), std::to_string(i % 300));
  }
  EXPECT_EQ(i, 600);
}

}  // namespace
}  // namespace ebbtide::report
