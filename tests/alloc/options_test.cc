// PyTorch's option string, and how requests are rounded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "alloc/make.h"

namespace ebbtide::alloc {
namespace {

using testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const auto options = ParsePytorchOptions(text);
  return options ? "no error" : options.error().message;
}

TEST(PytorchOptions, AreReadAsTorchDoes) {
  EXPECT_EQ(*ParsePytorchOptions(""), PytorchOptions());
  const auto options = ParsePytorchOptions(
      "max_split_size_mb: 128, garbage_collection_threshold:0.6,expandable_segments:True,"
      "roundup_power2_divisions:[1:2,4:8,>:4],per_process_memory_fraction:0.5,pinned_use_background_threads:True");
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->max_split_size, 128 * kMiB);
  EXPECT_EQ(options->garbage_collection_threshold, 0.6);
  EXPECT_EQ(options->per_process_memory_fraction, 0.5);
  EXPECT_TRUE(options->expandable_segments);
  // 1 MiB: 2; 2 MiB is not named: 0; 4 MiB: 8; all above: 4.
  EXPECT_EQ(options->roundup_power2_divisions[0], 2);
  EXPECT_EQ(options->roundup_power2_divisions[1], 0);
  EXPECT_EQ(options->roundup_power2_divisions[2], 8);
  EXPECT_EQ(options->roundup_power2_divisions[15], 4);
}

TEST(PytorchOptions, ErrorsNameTheOption) {
  EXPECT_THAT(ErrorOf("max_split_size_mb:10"),
              HasSubstr("max_split_size_mb: expected a whole number of MiB from 20 on"));
  EXPECT_THAT(ErrorOf("max_split_size:10"), HasSubstr("did you mean max_split_size_mb"));
  EXPECT_THAT(ErrorOf("expandable_segments:true"), HasSubstr("expected True or False, found \"true\""));
  EXPECT_THAT(ErrorOf("garbage_collection_threshold:1.5"), HasSubstr("a number between 0 and 1"));
  EXPECT_THAT(ErrorOf("roundup_power2_divisions:3"), HasSubstr("a power of two"));
  EXPECT_THAT(ErrorOf("roundup_power2_divisions:[4:2"), HasSubstr("expected a ']'"));
  EXPECT_THAT(ErrorOf("backend"), HasSubstr("expected a ':'"));
  EXPECT_THAT(ErrorOf("backend:"), HasSubstr("expected a value"));
  EXPECT_THAT(ErrorOf("backend:other"), HasSubstr("expected native or cudaMallocAsync"));
  EXPECT_THAT(ErrorOf("[:]"), HasSubstr("expected the name of an option"));
}

TEST(PytorchOptions, RequestsAreRounded) {
  EXPECT_EQ(RoundRequest({}, 1), 512);
  EXPECT_EQ(RoundRequest({}, 513), 1024);
  PytorchOptions options;
  options.roundup_power2_divisions.fill(4);
  EXPECT_EQ(RoundRequest(options, 1200 * kKiB), 1280 * kKiB);  // steps of 1024 / 4 = 256 KiB
  EXPECT_EQ(RoundRequest(options, 1024 * kKiB), 1024 * kKiB);
  EXPECT_EQ(RoundRequest(options, 2048), 2048);  // not above 4 x 512: plain rounding
}

TEST(AllocatorChoice, OptionsChooseTheModelToo) {
  EXPECT_EQ(ChooseAllocator("pytorch", "expandable_segments:True")->model.name, "pytorch-expandable");
  EXPECT_EQ(ChooseAllocator("pytorch", "backend:cudaMallocAsync")->model.name, "cuda-malloc-async");
  EXPECT_THAT(ChooseAllocator("pytoch", "").error().message, HasSubstr("did you mean pytorch"));
  EXPECT_THAT(ChooseAllocator("no-fragmentation", "backend:native").error().message, HasSubstr("has no options"));
}

}  // namespace
}  // namespace ebbtide::alloc
