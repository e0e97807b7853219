// Suggestions for names that were not found.
#include "base/nearest.h"

#include <gtest/gtest.h>

namespace ebbtide {
namespace {

const std::vector<std::string> kNames = {"resnet18", "resnet50",    "resnet101",    "vgg16",
                                         "gpt2",     "gpt2-medium", "gpt-neo-125m", "bert-base"};
using Names = std::vector<std::string>;

TEST(NearestNames, FindsSlipsOfTheKeys) {
  EXPECT_EQ(NearestNames("vgg61", kNames), Names{"vgg16"});  // two neighbours swapped
  EXPECT_EQ(NearestNames("bert-bse", kNames), Names{"bert-base"});
  EXPECT_EQ(NearestNames("resnet5", kNames).front(), "resnet50");
}

TEST(NearestNames, OverlooksCaseAndPunctuation) {
  EXPECT_EQ(NearestNames("BERT_base", kNames), Names{"bert-base"});
  EXPECT_EQ(NearestNames("GPTneo125M", kNames), Names{"gpt-neo-125m"});
}

TEST(NearestNames, OffersWhatTheNameBegins) {
  EXPECT_EQ(NearestNames("gpt", kNames), (Names{"gpt2", "gpt2-medium", "gpt-neo-125m"}));
  EXPECT_EQ(NearestNames("resnet", kNames).size(), 3u);
}

TEST(NearestNames, PrefersNamesThatHoldWhatWasWritten) {
  const Names gpus = {"a10", "a100-40gb", "a100-80gb", "p100", "rtx3090", "rtx4090", "v100-16gb"};
  EXPECT_EQ(NearestNames("a100", gpus), (Names{"a100-40gb", "a100-80gb"}));
  EXPECT_EQ(NearestNames("4090", gpus), Names{"rtx4090"});
  EXPECT_EQ(NearestNames("GeForce RTX 4090", gpus), Names{"rtx4090"});
  EXPECT_EQ(NearestNames("rtx3080", gpus), (Names{"rtx3090", "rtx4090"}));  // none holds it: the nearest
}

TEST(NearestNames, OffersNothingForNonsense) {
  EXPECT_TRUE(NearestNames("", kNames).empty());
  EXPECT_TRUE(NearestNames("---", kNames).empty());
  EXPECT_TRUE(NearestNames("transmogrifier", kNames).empty());
  EXPECT_TRUE(NearestNames(std::string(1'000'000, 'r'), kNames).empty());
}

TEST(DidYouMean, ReadsAsASentence) {
  EXPECT_EQ(DidYouMean("vgg61", kNames), "; did you mean vgg16?");
  EXPECT_EQ(DidYouMean("gpt", kNames), "; did you mean gpt2, gpt2-medium or gpt-neo-125m?");
  EXPECT_EQ(DidYouMean("transmogrifier", kNames), "");
}

}  // namespace
}  // namespace ebbtide
