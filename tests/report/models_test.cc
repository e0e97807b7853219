// The list of models, for people.
#include "report/text/models.h"

#include <gtest/gtest.h>

#include "report/json/models.h"

namespace ebbtide::report {
namespace {

TEST(ModelsText, GroupsByFamilyAndBreaksLongDescriptions) {
  const std::vector<model::BuiltInModel> models = {{"resnet50", "convolutional", "torchvision"},
                                                   {"gpt2", "language", "transformers, 512 tokens, no dropout"},
                                                   {"vgg16", "convolutional", "torchvision"}};
  // Names take 8 columns, 4 are around them: 28 are left.
  EXPECT_EQ(ModelsText(models, Terminal{.width = 40}),
            "convolutional\n"
            "  resnet50  torchvision\n"
            "  vgg16     torchvision\n"
            "\n"
            "language\n"
            "  gpt2      transformers, 512 tokens, no\n"
            "            dropout\n");
}

TEST(ModelsJson, KeepsTheOrder) {
  const Json result = ModelsJson({{"b", "x", "first"}, {"a", "y", "second"}});
  EXPECT_EQ(result["models"], (Json{{{"name", "b"}, {"family", "x"}, {"description", "first"}},
                                    {{"name", "a"}, {"family", "y"}, {"description", "second"}}}));
}

}  // namespace
}  // namespace ebbtide::report
