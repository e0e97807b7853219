// What an estimate says of its peaks, against a second look at its own timeline.
#include "estimate/estimate.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "estimate/safety.h"
#include "tests/estimate/step_maker.h"

namespace ebbtide::estimate {
namespace {

Options OptionsFor(const std::string& allocator, const std::string& pytorch_options = "") {
  Options options;
  options.gpu = *FindProfile("a100-80gb");
  options.allocator = *alloc::ChooseAllocator(allocator, pytorch_options);
  options.keep_timeline = true;
  return options;
}

using ByCategory = std::array<Bytes, kCategories>;

ByCategory AliveAt(const Timeline& timeline, std::int64_t event) {
  ByCategory alive{};
  for (const TimedRequest& timed : timeline.requests) {
    if (timed.begin <= event && event < timed.end) {
      alive[static_cast<std::size_t>(timed.request.category)] += timed.request.bytes;
    }
  }
  return alive;
}

Bytes Sum(const ByCategory& values) {
  Bytes sum = 0;
  for (const Bytes value : values) sum += value;
  return sum;
}

// 512 B are the least block, 2 MiB the least segment: one parameter of 1000 B takes 1024 B of 2 MiB.
TEST(EstimateTraining, SumsUpToWhatIsReserved) {
  StepMaker step;
  step.Persistent(StorageKind::kParameter, "w", 1000);
  const Estimate estimate = EstimateTraining(step.graph, OptionsFor("pytorch"));
  EXPECT_EQ(estimate.peak_reserved, 2 * kMiB);
  EXPECT_EQ(estimate.peak_allocated, 1024);
  EXPECT_EQ(estimate.at_peak.by_category[static_cast<std::size_t>(Category::kParameter)], 1000);
  EXPECT_EQ(estimate.at_peak.rounding, 24);
  EXPECT_EQ(estimate.at_peak.cached, 2 * kMiB - 1024);
  EXPECT_EQ(estimate.device_allocations, 1);
  EXPECT_EQ(estimate.total(), 2 * kMiB + estimate.loaded_code + estimate.context);
}

TEST(EstimateTraining, TellsWhatAJobWouldTakeThatDoesNotFit) {
  StepMaker step;
  Options options = OptionsFor("pytorch");
  step.Persistent(StorageKind::kParameter, "w", 2 * options.gpu.memory);
  const Estimate estimate = EstimateTraining(step.graph, options);
  EXPECT_FALSE(estimate.fits);
  EXPECT_GE(estimate.peak_reserved, 2 * options.gpu.memory);
  EXPECT_EQ(estimate.capacity, options.gpu.memory);
}

// The first event of so much memory, by the naive sums.
void CheckMoment(const Estimate& estimate, const Moment& moment, Bytes reserved_or_more) {
  RC_ASSERT(moment.rounding >= 0);
  RC_ASSERT(moment.cached >= 0);
  RC_ASSERT(moment.reserved() == moment.requested() + moment.rounding + moment.cached);
  RC_ASSERT(moment.reserved() <= estimate.peak_reserved);
  RC_ASSERT(moment.reserved() >= reserved_or_more);
  bool is_in_timeline = moment.requested() == 0;
  for (std::int64_t event = 0; event < estimate.timeline.events && !is_in_timeline; ++event) {
    is_in_timeline = AliveAt(estimate.timeline, event) == moment.by_category;
  }
  RC_ASSERT(is_in_timeline);
}

RC_GTEST_PROP(EstimateTraining, AgreesWithItsTimelineOnAnyStepAndAllocator, (std::uint64_t seed)) {
  const TrainingGraph step = RandomStep(seed);
  const auto zero_grad = *rc::gen::element(ZeroGrad::kStart, ZeroGrad::kBeforeBackward, ZeroGrad::kEnd);
  std::vector<Options> all;
  for (const alloc::AllocatorModel& model : alloc::AllocatorModels())
    all.push_back(OptionsFor(std::string(model.name)));
  all.push_back(OptionsFor("pytorch", "max_split_size_mb:21,roundup_power2_divisions:4"));
  for (Options& options : all) {
    options.training.iterations = 2;
    options.training.zero_grad = zero_grad;
    const Estimate estimate = EstimateTraining(step, options);
    const Timeline& timeline = estimate.timeline;
    RC_ASSERT(estimate.fits);
    CheckMoment(estimate, estimate.at_peak, estimate.peak_reserved);
    CheckMoment(estimate, estimate.at_allocated_peak, 0);
    RC_ASSERT(estimate.at_allocated_peak.requested() + estimate.at_allocated_peak.rounding == estimate.peak_allocated);

    std::int64_t frees = 0;
    for (const TimedRequest& timed : timeline.requests) {
      RC_ASSERT(0 <= timed.begin && timed.begin < timed.end && timed.end <= timeline.events);
      frees += timed.end < timeline.events ? 1 : 0;
    }
    RC_ASSERT(timeline.events == static_cast<std::int64_t>(timeline.requests.size()) + frees);
    RC_ASSERT(timeline.iterations.size() == 2);

    // At every event what is alive fits into what is reserved, and the levels' peak is the estimate's.
    Bytes highest = 0;
    std::size_t level = 0;
    for (std::int64_t event = 0; event < timeline.events; ++event) {
      while (level + 1 < timeline.reserved.size() && timeline.reserved[level + 1].at <= event) ++level;
      RC_ASSERT(Sum(AliveAt(timeline, event)) <= timeline.reserved[level].reserved);
      highest = std::max(highest, timeline.reserved[level].reserved);
    }
    RC_ASSERT(highest == estimate.peak_reserved);
    RC_ASSERT(SafeTotal(estimate, step).bytes >= estimate.total());
  }
}

TEST(EstimateTraining, IsTheSameWithoutATimeline) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const TrainingGraph step = RandomStep(seed);
    Options options = OptionsFor("pytorch");
    const Estimate with = EstimateTraining(step, options);
    options.keep_timeline = false;
    const Estimate without = EstimateTraining(step, options);
    EXPECT_EQ(with.peak_reserved, without.peak_reserved);
    EXPECT_EQ(with.peak_allocated, without.peak_allocated);
    EXPECT_EQ(with.at_peak.by_category, without.at_peak.by_category);
    EXPECT_TRUE(without.timeline.requests.empty());
  }
}

}  // namespace
}  // namespace ebbtide::estimate
