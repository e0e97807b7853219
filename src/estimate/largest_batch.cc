// Climbs to a batch that fails, then closes in by the line through two totals and by halves in turn.
#include "estimate/largest_batch.h"

#include <algorithm>
#include <map>

namespace ebbtide::estimate {
namespace {

class Search {
 public:
  Search(const TryBatch& attempt, const BatchSearchOptions& options) : attempt_(attempt), options_(options) {}

  Result<std::int64_t> Run() {
    EBB_ASSIGN_OR_RETURN(const BatchTrial one, Try(1));
    if (!one.fits) return 0;
    EBB_RETURN_IF_ERROR(Climb());
    EBB_RETURN_IF_ERROR(Close());
    for (std::int64_t batch = fits_ + 1; batch <= std::min(fits_ + options_.above, options_.most); ++batch) {
      EBB_ASSIGN_OR_RETURN(const BatchTrial trial, Try(batch));
      if (trial.fits) fits_ = batch;
    }
    return fits_;
  }

 private:
  Result<BatchTrial> Try(std::int64_t batch) {
    if (const auto known = tried_.find(batch); known != tried_.end()) return known->second;
    EBB_ASSIGN_OR_RETURN(const BatchTrial trial, attempt_(batch));
    tried_.emplace(batch, trial);
    return trial;
  }

  // Where the line through two trials meets the capacity.
  std::int64_t Crossing(std::int64_t a, std::int64_t b) const {
    const Bytes at_a = tried_.at(a).total, at_b = tried_.at(b).total;
    if (at_b <= at_a) return options_.most;
    const double share = static_cast<double>(options_.capacity - at_a) / static_cast<double>(at_b - at_a);
    const double batch = static_cast<double>(a) + share * static_cast<double>(b - a);
    return static_cast<std::int64_t>(std::clamp(batch, 1.0, static_cast<double>(options_.most)));
  }

  // Up to a batch that does not fit, a little beyond where the capacity should be used up.
  Status Climb() {
    constexpr std::int64_t kSteepest = 64;
    std::int64_t next = std::min<std::int64_t>(2, options_.most);
    while (fits_ < options_.most) {
      EBB_ASSIGN_OR_RETURN(const BatchTrial trial, Try(next));
      if (!trial.fits) {
        fails_ = next;
        return {};
      }
      const std::int64_t before = fits_;
      fits_ = next;
      const std::int64_t crossing = Crossing(before, fits_);
      next = std::clamp(crossing + crossing / 50 + 1, fits_ + 1, std::max(fits_ + 1, kSteepest * fits_));
      next = std::min(next, options_.most);
    }
    fails_ = fits_ + 1;
    return {};
  }

  // By turns at the crossing and in the middle: totals are nearly linear, but allocators give way near the limit.
  Status Close() {
    for (bool halve = false; fails_ - fits_ > 1; halve = !halve) {
      const std::int64_t guess = halve ? fits_ + (fails_ - fits_) / 2 : Crossing(fits_, fails_);
      const std::int64_t batch = std::clamp(guess, fits_ + 1, fails_ - 1);
      EBB_ASSIGN_OR_RETURN(const BatchTrial trial, Try(batch));
      (trial.fits ? fits_ : fails_) = batch;
    }
    return {};
  }

  const TryBatch& attempt_;
  const BatchSearchOptions& options_;
  std::map<std::int64_t, BatchTrial> tried_;
  std::int64_t fits_ = 1, fails_ = 0;
};

}  // namespace

Result<std::int64_t> LargestBatch(const TryBatch& attempt, const BatchSearchOptions& options) {
  return Search(attempt, options).Run();
}

}  // namespace ebbtide::estimate
