// Doubles the batch up to one that no plan can run, halves between what fits and what fails, and then looks a little
// above.
#include "plan/largest_batch.h"

#include <algorithm>
#include <map>

#include "plan/bound/bound.h"

namespace ebbtide::plan {
namespace {

enum class Effort : std::uint8_t { kQuick, kFull, kBest };

struct Trial {
  bool fits = false;
  bool is_final = false;  // more effort would not change it
  Obstacle obstacle = Obstacle::kNone;
  std::optional<Plan> plan;
};

class Search {
 public:
  Search(const StepAt& step, const BatchOptions& options) : step_(step), options_(options) {}

  Result<LargestBatch> Run() {
    EBB_RETURN_IF_ERROR(Climb());
    EBB_RETURN_IF_ERROR(Descend());
    EBB_RETURN_IF_ERROR(Halve(Effort::kQuick));
    EBB_RETURN_IF_ERROR(Close());
    return Answer();
  }

 private:
  // ---- One batch
  Problem ProblemOf(const BatchStep& step) const { return MakeProblem(step.workload, options_.link, options_.limits); }
  Nanos LimitOf(const BatchStep& step) const {
    return static_cast<Nanos>(static_cast<double>(sim::PlainTime(step.workload)) * options_.slowdown);
  }

  // Whether no plan can run the batch.
  Result<bool> IsHopeless(std::int64_t batch) {
    EBB_ASSIGN_OR_RETURN(const auto step, step_(batch));
    const Obstacle obstacle = CertainObstacle(ProblemOf(*step), LimitOf(*step));
    if (obstacle == Obstacle::kNone) return false;
    Remember(batch, {.fits = false, .is_final = true, .obstacle = obstacle, .plan = {}});
    return true;
  }

  Result<bool> Try(std::int64_t batch, Effort effort) {
    const auto known = trials_.find(batch);
    if (known != trials_.end() && (known->second.is_final || known->second.fits || effort == Effort::kQuick)) {
      return known->second.fits;
    }
    EBB_ASSIGN_OR_RETURN(Trial trial, Attempt(batch, effort));
    const bool fits = trial.fits;
    Remember(batch, std::move(trial));
    ++count_;
    if (options_.progress) options_.progress(batch, fits_, fails_);
    return fits;
  }

  Result<Trial> Attempt(std::int64_t batch, Effort effort) {
    EBB_ASSIGN_OR_RETURN(const auto step, step_(batch));
    const Problem problem = ProblemOf(*step);
    const Nanos limit = LimitOf(*step);
    Trial out{.is_final = effort != Effort::kQuick, .obstacle = CertainObstacle(problem, limit), .plan = {}};
    if (out.obstacle != Obstacle::kNone) {
      out.is_final = true;
      return out;
    }
    // A search that only has to tell whether the batch can be run ends as soon as it can.
    SearchOptions search = options_.search;
    bool is_settled = false;
    if (effort == Effort::kQuick) search.evaluations = options_.quick;
    if (effort != Effort::kBest) {
      search.progress = [&](std::int64_t /*done*/, std::int64_t /*all*/, Nanos best) { is_settled = best <= limit; };
      search.stop = [&] { return is_settled || (options_.search.stop && options_.search.stop()); };
    }
    Planned planned = MakePlan(step->graph, problem, *options_.policy, search);
    if (planned.evaluations == 0) out.is_final = true;  // nothing was searched
    if (!planned.plan) {
      out.obstacle = Obstacle::kMemory;
    } else if (planned.plan->time > limit) {
      out.obstacle = Obstacle::kTime;
    } else {
      out.fits = true;
      out.plan = std::move(planned.plan);
    }
    return out;
  }

  void Remember(std::int64_t batch, Trial trial) {
    // One plan is enough, that of the largest batch.
    if (trial.fits && batch >= fits_) {
      if (const auto before = trials_.find(fits_); before != trials_.end() && fits_ != batch)
        before->second.plan.reset();
      fits_ = batch;
      if (fails_ <= fits_) fails_ = 0;
    } else {
      trial.plan.reset();
    }
    trials_[batch] = std::move(trial);
  }

  // ---- The search
  // Doubles up to a batch that no plan can run.
  Status Climb() {
    std::int64_t batch = 1;
    for (;; batch = std::min(2 * batch, options_.most)) {
      EBB_ASSIGN_OR_RETURN(const bool hopeless, IsHopeless(batch));
      if (hopeless) break;
      if (batch == options_.most) {
        top_ = batch;
        return {};
      }
    }
    fails_ = batch;
    top_ = batch / 2;
    return {};
  }

  // From there down to one that is found to run.
  Status Descend() {
    for (std::int64_t batch = top_; batch > 0; batch /= 2) {
      EBB_ASSIGN_OR_RETURN(const bool fits, Try(batch, Effort::kQuick));
      if (fits) return {};
      fails_ = batch;
    }
    // One sample gets another chance.
    if (top_ == 0) return {};
    EBB_ASSIGN_OR_RETURN(const bool fits, Try(1, Effort::kFull));
    if (fits && top_ >= 2) fails_ = 2;
    return {};
  }

  Status Halve(Effort effort) {
    while (fits_ > 0 && fails_ - fits_ > 1) {
      const std::int64_t batch = fits_ + (fails_ - fits_) / 2;
      EBB_ASSIGN_OR_RETURN(const bool fits, Try(batch, effort));
      if (!fits) fails_ = batch;
    }
    return {};
  }

  // Beyond what quick searches reach, by growing steps.
  Status GoOn() {
    for (std::int64_t step = std::max<std::int64_t>(1, fits_ / 64);; step *= 2) {
      const std::int64_t batch = std::min(fits_ + step, options_.most);
      if (batch == fits_) return {};
      EBB_ASSIGN_OR_RETURN(const bool fits, Try(batch, Effort::kFull));
      if (fits) continue;
      fails_ = batch;
      return {};
    }
  }

  // The next ones, and some that are further away.
  Status LookAbove() {
    std::vector<std::int64_t> batches;
    for (std::int64_t i = 1; i <= options_.above; ++i) batches.push_back(fits_ + i);
    for (const std::int64_t part : {32, 16, 8}) batches.push_back(fits_ + fits_ / part);
    const std::int64_t before = fits_;
    for (const std::int64_t batch : batches) {
      if (batch == before || batch > options_.most) continue;
      EBB_RETURN_IF_ERROR(Try(batch, Effort::kFull));
      if (fits_ > before) break;
    }
    return {};
  }

  Status Close() {
    for (std::int64_t before = 0; fits_ > before;) {
      EBB_RETURN_IF_ERROR(GoOn());
      EBB_RETURN_IF_ERROR(Halve(Effort::kFull));
      before = fits_;
      EBB_RETURN_IF_ERROR(LookAbove());
    }
    return {};
  }

  // Between a batch that can be run and one for which there can be no plan.
  Result<std::int64_t> FirstHopeless(std::int64_t low, std::int64_t high) {
    while (high - low > 1) {
      const std::int64_t batch = low + (high - low) / 2;
      EBB_ASSIGN_OR_RETURN(const bool hopeless, IsHopeless(batch));
      (hopeless ? high : low) = batch;
    }
    return high;
  }

  Result<LargestBatch> Answer() {
    LargestBatch out;
    out.batch = fits_;
    for (const auto& [batch, trial] : trials_) {
      if (batch <= fits_ || trial.fits) continue;
      if (out.next == 0) out.next = batch, out.obstacle = trial.obstacle;
      const bool certain = trial.obstacle == Obstacle::kFloor || trial.obstacle == Obstacle::kLeastTime;
      if (certain && out.none_from == 0) out.none_from = batch;
    }
    out.trials = count_;
    if (out.none_from > 0) {
      EBB_ASSIGN_OR_RETURN(out.none_from, FirstHopeless(fits_, out.none_from));
    }
    if (fits_ == 0) return out;
    // The trial ended as soon as it could: the plan that is handed out is as good as the policy makes it.
    EBB_ASSIGN_OR_RETURN(Trial best, Attempt(fits_, Effort::kBest));
    Trial& known = trials_.at(fits_);
    out.plan = best.fits && best.plan->time <= known.plan->time ? std::move(best.plan) : std::move(known.plan);
    return out;
  }

  const StepAt& step_;
  const BatchOptions& options_;
  std::map<std::int64_t, Trial> trials_;
  std::int64_t fits_ = 0, fails_ = 0, top_ = 0, count_ = 0;
};

}  // namespace

Obstacle CertainObstacle(const Problem& problem, Nanos limit) {
  if (Floor(problem) > problem.limits.budget) return Obstacle::kFloor;
  return BoundFromMoments(problem) > limit ? Obstacle::kLeastTime : Obstacle::kNone;
}

Result<LargestBatch> FindLargestBatch(const StepAt& step, const BatchOptions& options) {
  return Search(step, options).Run();
}

}  // namespace ebbtide::plan
