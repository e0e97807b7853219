// The copy engine's spans against a list that is searched from the beginning.
#include "phantom/core/clock.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace ebbtide::phantom {
namespace {

TEST(CopyEngine, TakesTheFirstGapThatFits) {
  CopyEngine engine(1e9, 0);
  EXPECT_EQ(engine.Occupy(0, 10, 0), 0);    // [0, 10)
  EXPECT_EQ(engine.Occupy(20, 10, 0), 20);  // [20, 30)
  EXPECT_EQ(engine.Occupy(5, 10, 0), 10);   // fills [10, 20)
  EXPECT_EQ(engine.Occupy(0, 1, 0), 30);
  EXPECT_EQ(engine.busy(), 31);
}

TEST(CopyEngine, DurationIsLatencyAndTransfer) {
  CopyEngine engine(2e9, 500);
  EXPECT_EQ(engine.Duration(0), 500);
  EXPECT_EQ(engine.Duration(1000), 1000);  // 500 + 1000 / 2
}

RC_GTEST_PROP(CopyEngine, AgreesWithAListOfSpans, ()) {
  CopyEngine engine(1e9, 0);
  std::vector<std::pair<Nanos, Nanos>> spans;
  Nanos past = 0;
  for (int i = *rc::gen::inRange(0, 60); i > 0; --i) {
    past += *rc::gen::inRange<Nanos>(0, 5);
    Nanos ready = past + *rc::gen::inRange<Nanos>(0, 100);
    Nanos duration = *rc::gen::inRange<Nanos>(1, 20);
    Nanos expected = ready;
    for (bool moved = true; moved;) {
      moved = false;
      for (auto [begin, end] : spans) {
        if (begin < expected + duration && expected < end) {
          expected = end;
          moved = true;
        }
      }
    }
    RC_ASSERT(engine.Occupy(ready, duration, past) == expected);
    spans.emplace_back(expected, expected + duration);
  }
}

}  // namespace
}  // namespace ebbtide::phantom
