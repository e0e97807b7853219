// Searches by bisection: without plans first, then with them.
#include "share/scheduler/common_batch.h"

#include <algorithm>
#include <map>

#include "estimate/largest_batch.h"

namespace ebbtide::share {
namespace {

Status CheckStop(const CommonBatchOptions& options) {
  if (options.mix.stop && options.mix.stop()) return FailAs(ErrorKind::kStopped, "stopped");
  return {};
}

class Search {
 public:
  Search(const std::vector<std::string>& models, const TrainingAt& at, const CommonBatchOptions& options)
      : models_(models), at_(at), options_(options), may_plan_(options.mix.may_plan) {
    options_.mix.may_plan = false;
  }

  Result<CommonBatch> Run() {
    CommonBatch out;
    for (std::size_t job = 0; job < models_.size(); ++job) {
      const auto first = static_cast<std::size_t>(std::ranges::find(models_, models_[job]) - models_.begin());
      if (first < job) {
        out.solo.push_back(out.solo[first]);
        continue;
      }
      Say(fmt::format("{} alone", models_[job]));
      EBB_ASSIGN_OR_RETURN(const std::int64_t solo, FindSoloBatch(job, at_, options_));
      out.solo.push_back(solo);
    }
    if (std::ranges::find(out.solo, 0) != out.solo.end()) return out;
    solo_ = out.solo;
    const bool alike = std::ranges::adjacent_find(models_, std::not_equal_to<>()) == models_.end();
    steps_ = alike ? solo_[0] : kShares;
    EBB_ASSIGN_OR_RETURN(std::int64_t step, LargestThatFits());
    const std::int64_t stride = std::max<std::int64_t>(1, steps_ / 100);
    for (std::int64_t down = 1; step > 0; step -= down, down = std::min(2 * down, stride)) {
      EBB_ASSIGN_OR_RETURN(const bool good, Try(step, out));
      if (good) break;
    }
    step = std::max<std::int64_t>(step, 0);
    out.unplanned_share = out.share;
    if (may_plan_) EBB_RETURN_IF_ERROR(TryPlans(step, out));
    return out;
  }

 private:
  static constexpr std::int64_t kShares = 1000;
  static constexpr int kPlanTrials = 8;

  void Say(const std::string& what) const {
    if (options_.mix.progress) options_.mix.progress(what);
  }

  std::vector<std::int64_t> BatchesAt(std::int64_t step) const {
    std::vector<std::int64_t> out;
    for (const std::int64_t solo : solo_) out.push_back(std::max<std::int64_t>(1, solo * step / steps_));
    return out;
  }
  std::string BatchesText(std::int64_t step) const { return fmt::format("batch {}", fmt::join(BatchesAt(step), ", ")); }

  Result<std::vector<std::shared_ptr<const Training>>> TrainingsAt(std::int64_t step) {
    std::vector<std::shared_ptr<const Training>> out;
    const std::vector<std::int64_t> batches = BatchesAt(step);
    for (std::size_t job = 0; job < models_.size(); ++job) {
      EBB_RETURN_IF_ERROR(CheckStop(options_));
      auto& known = trainings_[{models_[job], batches[job]}];
      if (!known) {
        EBB_ASSIGN_OR_RETURN(known, at_(job, batches[job]));
      }
      out.push_back(known);
    }
    return out;
  }

  // Keeps the mix if it is good.
  Result<bool> Try(std::int64_t step, CommonBatch& out) {
    EBB_ASSIGN_OR_RETURN(const auto trainings, TrainingsAt(step));
    Say(fmt::format("{} together{}", BatchesText(step), options_.mix.may_plan ? ", with plans" : ""));
    EBB_ASSIGN_OR_RETURN(Mix mix, ArrangeMix(trainings, options_.mix));
    if (!IsGood(mix)) return false;
    out.batches = BatchesAt(step);
    Describe(mix, out);
    out.mix = std::move(mix);
    return true;
  }

  // From what fits without plans to the batch alone: that first, then by bisection.
  Status TryPlans(std::int64_t low, CommonBatch& out) {
    options_.mix.may_plan = true;
    std::int64_t high = steps_ + 1;
    for (int trial = 0; trial < kPlanTrials && low + 1 < high; ++trial) {
      const std::int64_t step = trial == 0 ? steps_ : (low + high) / 2;
      EBB_ASSIGN_OR_RETURN(const bool good, Try(step, out));
      (good ? low : high) = step;
    }
    return {};
  }

  // By bisection: memory grows with the batch, but for a little.
  Result<std::int64_t> LargestThatFits() {
    std::int64_t low = 0, high = steps_ + 1;
    while (low + 1 < high) {
      const std::int64_t middle = (low + high) / 2;
      Say(BatchesText(middle));
      EBB_ASSIGN_OR_RETURN(const auto trainings, TrainingsAt(middle));
      (FitsInOneLane(trainings, options_.mix) ? low : high) = middle;
    }
    return low;
  }

  bool IsGood(const Mix& mix) const {
    return mix.fits && mix.together.round <= mix.exclusive && mix.together.overlap() >= options_.least_overlap;
  }

  void Describe(const Mix& mix, CommonBatch& out) const {
    Bytes state = 0;
    for (const Job& job : mix.jobs) state += job.placement.state;
    out.share = out.ceiling = 1;
    const auto capacity = static_cast<double>(options_.mix.capacity);
    for (std::size_t job = 0; job < models_.size(); ++job) {
      out.share = std::min(out.share, static_cast<double>(out.batches[job]) / static_cast<double>(solo_[job]));
      out.ceiling = std::min(out.ceiling, (capacity - static_cast<double>(state)) /
                                              (capacity - static_cast<double>(mix.jobs[job].placement.state)));
    }
  }

  const std::vector<std::string>& models_;
  const TrainingAt& at_;
  CommonBatchOptions options_;
  const bool may_plan_;
  std::vector<std::int64_t> solo_;
  std::int64_t steps_ = 0;  // batches are so many parts of the solo batch
  std::map<std::pair<std::string, std::int64_t>, std::shared_ptr<const Training>> trainings_;
};

}  // namespace

Result<std::int64_t> FindSoloBatch(std::size_t job, const TrainingAt& at, const CommonBatchOptions& options) {
  const Bytes capacity = options.mix.capacity;
  const estimate::TryBatch attempt = [&](std::int64_t batch) -> Result<estimate::BatchTrial> {
    EBB_RETURN_IF_ERROR(CheckStop(options));
    EBB_ASSIGN_OR_RETURN(const std::shared_ptr<const Training> training, at(job, batch));
    const Bytes peak = sim::PlainPeak(training->workload);
    if (peak > capacity) return estimate::BatchTrial{.fits = false, .total = peak};
    return estimate::BatchTrial{.fits = FitsInOneLane({training}, options.mix), .total = peak};
  };
  return estimate::LargestBatch(attempt, {.capacity = capacity, .most = options.most, .above = 2});
}

Result<CommonBatch> FindCommonBatch(const std::vector<std::string>& models, const TrainingAt& at,
                                    const CommonBatchOptions& options) {
  return Search(models, at, options).Run();
}

}  // namespace ebbtide::share
