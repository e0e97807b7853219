// The search for the largest batch, on devices that are functions.
#include "estimate/largest_batch.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace ebbtide::estimate {
namespace {

struct Found {
  std::int64_t batch = 0;
  std::size_t tries = 0;
  bool repeats = false;
};

Found Search(const std::function<BatchTrial(std::int64_t)>& device, const BatchSearchOptions& options) {
  Found found;
  std::set<std::int64_t> tried;
  const auto result = LargestBatch(
      [&](std::int64_t batch) -> Result<BatchTrial> {
        found.repeats = found.repeats || !tried.insert(batch).second;
        ++found.tries;
        return device(batch);
      },
      options);
  found.batch = result.value();
  return found;
}

// 100 B and 7 B for each sample.
BatchTrial Linear(std::int64_t batch, Bytes capacity) { return {100 + 7 * batch <= capacity, 100 + 7 * batch}; }

TEST(LargestBatch, OfALinearDevice) {
  // (10000 - 100) / 7 = 1414.2...
  const Found found = Search([](std::int64_t batch) { return Linear(batch, 10000); }, {.capacity = 10000});
  EXPECT_EQ(found.batch, 1414);
  EXPECT_FALSE(found.repeats);
  EXPECT_LE(found.tries, 16U + 16U);  // those above, and some dozen to get there
}

TEST(LargestBatch, IsZeroWhereOneSampleDoesNotFit) {
  EXPECT_EQ(Search([](std::int64_t batch) { return Linear(batch, 106); }, {.capacity = 106}).batch, 0);
  EXPECT_EQ(Search([](std::int64_t batch) { return Linear(batch, 107); }, {.capacity = 107}).batch, 1);
}

TEST(LargestBatch, StopsAtTheMost) {
  EXPECT_EQ(Search([](std::int64_t) { return BatchTrial{true, 1}; }, {.capacity = 100, .most = 5000}).batch, 5000);
  EXPECT_EQ(Search([](std::int64_t) { return BatchTrial{true, 1}; }, {.capacity = 100, .most = 1}).batch, 1);
}

TEST(LargestBatch, LooksBehindAGap) {
  // 1414 is the last of the line, but 1420 and 1430 fit as well; 1450 is more than 16 further on.
  const auto device = [](std::int64_t batch) {
    const BatchTrial trial = Linear(batch, 10000);
    return BatchTrial{trial.fits || batch == 1420 || batch == 1430 || batch == 1450, trial.total};
  };
  EXPECT_EQ(Search(device, {.capacity = 10000}).batch, 1430);
}

TEST(LargestBatch, TheFirstErrorEndsIt) {
  int tries = 0;
  const auto result = LargestBatch(
      [&](std::int64_t batch) -> Result<BatchTrial> {
        ++tries;
        if (batch > 1) return Fail("no such batch");
        return BatchTrial{true, 1};
      },
      {.capacity = 10});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "no such batch");
  EXPECT_EQ(tries, 2);
}

// Any device at all: what is found fits, none of the next `above` does, and no batch is tried twice.
RC_GTEST_PROP(LargestBatch, KeepsItsPromiseOnAnyDevice, ()) {
  const auto fits = *rc::gen::container<std::vector<bool>>(200, rc::gen::arbitrary<bool>());
  const auto totals = *rc::gen::container<std::vector<Bytes>>(200, rc::gen::inRange<Bytes>(0, 1000));
  BatchSearchOptions options;
  options.capacity = *rc::gen::inRange<Bytes>(0, 1000);
  options.most = *rc::gen::inRange<std::int64_t>(1, 200);
  options.above = *rc::gen::inRange<std::int64_t>(0, 20);
  const auto at = [&](std::int64_t batch) {
    const auto place = static_cast<std::size_t>(batch - 1);
    return BatchTrial{fits[place], totals[place]};
  };
  const Found found = Search(at, options);
  RC_ASSERT(!found.repeats);
  if (!fits[0]) {
    RC_ASSERT(found.batch == 0);
    return;
  }
  RC_ASSERT(found.batch >= 1 && found.batch <= options.most);
  RC_ASSERT(at(found.batch).fits);
  for (std::int64_t next = found.batch + 1; next <= std::min(found.batch + options.above, options.most); ++next) {
    RC_ASSERT(!at(next).fits);
  }
}

}  // namespace
}  // namespace ebbtide::estimate
