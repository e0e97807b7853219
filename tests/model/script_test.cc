// What a script defines, told from its text.
#include "model/script.h"

#include <gtest/gtest.h>

namespace ebbtide::model {
namespace {

using Names = std::vector<std::string>;

TEST(FunctionsOf, ListsWhatIsDefinedAtTheTopLevel) {
  EXPECT_EQ(FunctionsOf(
                "import torch\n\ndef step():\n    def inner():\n        pass\n\ndef main(batch_size=32):\n    pass\n"),
            (Names{"step", "main"}));
  EXPECT_EQ(FunctionsOf("class Net:\n  def forward(self): pass\nasync def serve(): pass\ndefault = 3\ndef = 4\n"),
            Names{});
}

TEST(FunctionsOf, PutsThoseThatNeedArgumentsLast) {
  EXPECT_EQ(
      FunctionsOf("def train(model, x): pass\ndef step( ): pass\ndef make(*, lr=1): pass\ndef kw(**more): pass\n"),
      (Names{"step", "make", "kw", "train"}));
}

TEST(FunctionsOf, OverlooksTexts) {
  EXPECT_EQ(FunctionsOf("\"\"\"As in\ndef example(): pass\n\"\"\"\ndef real(): pass\n"), Names{"real"});
  EXPECT_EQ(FunctionsOf("x = ''' # not a comment\ndef no(): pass\n'''; y = \"'''\"\ndef yes(): pass\n"), Names{"yes"});
  EXPECT_EQ(FunctionsOf("# \"\"\"\ndef yes(): pass\n"), Names{"yes"});
  EXPECT_EQ(FunctionsOf(std::string(100000, '"')), Names{});
}

}  // namespace
}  // namespace ebbtide::model
