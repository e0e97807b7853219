// Goes back through the first runs with the set of storages that must be there. Where the set takes too much memory,
// some of it is made at this moment.
#include "plan/decide/backward.h"

#include <algorithm>

#include "plan/decide/making.h"

namespace ebbtide::plan {
namespace {

// Without room nothing can be made again, and with much of it free more is made again than has to be. So room is kept
// free only ahead of where there was none: a share of the budget, for a share of the step, more of both each time.
constexpr double kMoreFree = 0.1, kMostFree = 0.75;
constexpr std::size_t kFirstWidth = 32;  // parts of the step
constexpr int kMostReturns = 40;
constexpr double kTogether = 0.5, kLuck = 0.3;  // Making::How, in every second try and in all but the first two
constexpr int kMostTries = 64;                  // for one budget
constexpr std::int64_t kShareOfMore = 4;        // of the work goes into tries beyond those that were asked for
constexpr std::int64_t kStoragesPerWork = 64;
constexpr int kHalvings = 7;  // of what is between two budgets

class Backward : private Making {
 public:
  using Making::How;

  Backward(const Problem& problem, const Units& units, Bytes budget) : Making(problem, units, budget) {}

  // Takes off `work` what it used, and gives up where there is none left.
  std::optional<std::vector<RunAgain>> Run(const How& how, std::int64_t& work) {
    work_ = work;
    std::optional<std::vector<RunAgain>> out = Run(how);
    work = work_;
    return out;
  }

  // Of the last Run.
  Nanos again() const { return again_; }

 private:
  // What was so at a stage, to go on from it in another way.
  struct Passed {
    OpId stage;
    IdVector<StorageId, Level> level;
    Bytes used;
    Nanos again;
    std::size_t runs;
  };

  std::optional<std::vector<RunAgain>> Run(const How& how) {
    how_ = how;
    random_ = Random(how.seed);
    runs_.clear();
    used_ = again_ = 0;
    std::ranges::fill(level_, 0);
    for (const StorageId s : workload_.storage_ids()) {
      if (workload_.outlives[s] && !workload_.IsState(s)) Hold(s, 1);
    }
    const std::size_t ops = workload_.ops(), first_width = ops / kFirstWidth + 1;
    std::vector<double> free(ops + 1, 0);
    std::vector<Passed> passed;
    std::size_t lowest = ops + 1, width = first_width;
    double share = kMoreFree;
    int returns = 0;
    for (stage_ = workload_.time.end_id(); stage_ > OpId(0);) {
      if (passed.empty() || passed.back().stage.index() >= stage_.index() + first_width / 2 + 1)
        passed.push_back({stage_, level_, used_, again_, runs_.size()});
      if (IsLate(problem_)) return std::nullopt;
      if (GoBack(free[stage_.index()])) continue;
      if (IsTooMuch() || ++returns > kMostReturns) return std::nullopt;
      // Once more from a later stage on.
      const std::size_t failed = stage_.index();
      if (failed < lowest) {
        lowest = failed, width = first_width, share = kMoreFree;
      } else {
        width = std::min(2 * width, ops), share = std::min(share + kMoreFree, kMostFree);
      }
      for (std::size_t k = failed; k <= std::min(failed + width, ops); ++k) free[k] = std::max(free[k], share);
      while (passed.size() > 1 && passed.back().stage.index() < failed + width) passed.pop_back();
      const Passed& from = passed.back();
      stage_ = from.stage, level_ = from.level, used_ = from.used, again_ = from.again;
      runs_.resize(from.runs);
    }
    std::ranges::reverse(runs_);
    return runs_;
  }

  // By one first run; false: there is no room for it.
  bool GoBack(double free) {
    const OpId op(stage_.index() - 1);
    const auto needs = workload_.needs[op], births = workload_.births[op];
    Bytes more = workload_.workspace[op];
    for (const auto list : {needs, births}) {
      for (const StorageId s : list) {
        if (!workload_.IsState(s) && level_[s] == 0) more += workload_.bytes[s];
      }
    }
    const Bytes wanted = std::min(room_ - more, static_cast<Bytes>((1 - free) * static_cast<double>(room_)));
    if (used_ > wanted) {
      for (const auto list : {needs, births}) SetLocked(list, true);
      Shrink(wanted, HeldUnits(), 1, [this](StorageId s) { return static_cast<double>(Idle(s)); });
      for (const auto list : {needs, births}) SetLocked(list, false);
    }
    if (used_ + more > room_) return false;
    for (const StorageId s : births) Release(s);
    for (const StorageId s : needs) {
      if (!workload_.IsState(s) && level_[s] == 0) Hold(s, 1);
    }
    stage_ = op;
    return true;
  }

  // Stages since its last use before this one.
  std::size_t Idle(StorageId s) const {
    const auto uses = workload_.uses[s];
    const auto next = std::ranges::lower_bound(uses, stage_);
    return stage_.index() - (next == uses.begin() ? 0 : std::prev(next)->index());
  }
  std::vector<UnitId> HeldUnits() {
    work_ -= static_cast<std::int64_t>(workload_.storages()) / kStoragesPerWork;
    std::vector<UnitId> out;
    for (const StorageId s : workload_.storage_ids()) {
      if (level_[s] == 0 || !units_.of[s].valid() || !MayRun(units_.of[s])) continue;
      out.push_back(units_.of[s]);
    }
    std::ranges::sort(out);
    const auto same = std::ranges::unique(out);
    out.erase(same.begin(), same.end());
    return out;
  }
};

}  // namespace

std::optional<std::vector<RunAgain>> BackwardRuns(const Problem& problem, const Units& units, Bytes budget, int tries,
                                                  std::int64_t& work) {
  Backward backward(problem, units, budget);
  const std::int64_t enough = work - work / kShareOfMore;
  std::optional<std::vector<RunAgain>> best;
  Nanos time = 0;
  // Where a try takes little, more of them are made.
  for (int i = 0; work > 0 && (i < tries || (i < kMostTries && best && work > enough)); ++i) {
    std::int64_t share = i < tries ? work / std::min(tries - i, 2) : work;
    work -= share;
    std::optional<std::vector<RunAgain>> runs = backward.Run(
        {.together = i % 2 == 0 ? 0 : kTogether, .luck = i < 2 ? 0 : kLuck, .seed = static_cast<std::uint64_t>(i)},
        share);
    work += share;
    if (runs && (!best || backward.again() < time)) best = std::move(runs), time = backward.again();
  }
  return best;
}

std::vector<std::vector<RunAgain>> LowestBackwardRuns(const Problem& problem, const Units& units, Bytes floor,
                                                      Bytes known) {
  std::vector<std::vector<RunAgain>> out;
  Bytes low = floor - 1, high = known;
  for (int i = 0; i < kHalvings && high - low > high / 200 && !IsLate(problem); ++i) {
    const Bytes middle = low + (high - low) / 2;
    std::int64_t work = kBackwardWork;
    if (std::optional<std::vector<RunAgain>> runs = BackwardRuns(problem, units, middle, 1, work)) {
      out.push_back(*std::move(runs));
      high = middle;
    } else {
      low = middle;
    }
  }
  return out;
}

}  // namespace ebbtide::plan
