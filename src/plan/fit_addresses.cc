// Rollouts for budgets from the one that was asked for down to less, placed in the order of their times until one fits;
// then local search, in which a change counts only with its addresses.
#include "plan/fit_addresses.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "plan/place.h"
#include "plan/search/position.h"
#include "sim/simulate.h"
#include "sim/trim.h"

namespace ebbtide::plan {
namespace {

// Budgets of rollouts as shares of the one that is to be kept: gaps between addresses take the rest.
constexpr std::array kLevels{1.0,  0.9975, 0.995, 0.9925, 0.99, 0.9875, 0.985, 0.98,
                             0.97, 0.96,   0.95,  0.935,  0.92, 0.9,    0.87,  0.84};
constexpr std::size_t kPlacedAtOnce = 8;  // whatever the number of threads
// Schedules that are placed: fewer where each has more stays, as the time of first fit grows with their square.
constexpr std::size_t kMostPlaced = 320, kLeastPlaced = 4, kFewStays = 1000;
constexpr std::size_t kPlacedPerRound = 16;     // of changed ones
constexpr std::size_t kOpsRolledOut = 400'000;  // by the first rollouts together, or one of each level
constexpr int kRoundsWithoutGain = 30;

// One rollout.
struct Trial {
  Position at;
  std::size_t level = 0;
  Nanos time = kInfeasible;
};

class Fitting {
 public:
  Fitting(const Problem& problem, Nanos enough, const SearchOptions& options)
      : problem_(problem), enough_(enough), options_(options), candidates_(FindCandidates(problem)) {
    const double few = static_cast<double>(kFewStays) / static_cast<double>(problem.workload->storages());
    to_place_ =
        std::clamp(static_cast<std::size_t>(static_cast<double>(kMostPlaced) * few * few), kLeastPlaced, kMostPlaced);
    for (const double level : kLevels) {
      levels_.push_back(problem);
      levels_.back().limits.budget = static_cast<Bytes>(level * static_cast<double>(problem.limits.budget));
    }
  }

  std::optional<Fitted> Run(const std::vector<Preferences>& preferences) {
    std::vector<Trial> trials;
    const std::size_t most = std::max<std::size_t>(1, kOpsRolledOut / levels_.size() / problem_.workload->ops());
    for (std::size_t i = 0; i < std::min(preferences.size(), most); ++i) {
      const Position at = Encode(preferences[i], candidates_);
      for (std::size_t level = 0; level < levels_.size(); ++level) trials.push_back({at, level});
    }
    RollOut(trials, kInfeasible);
    PlaceFirst(trials, 2 * to_place_ / 3);
    int since = 0;
    for (std::uint64_t round = 0;
         best_ && best_->time > enough_ && to_place_ > 0 && since < kRoundsWithoutGain && !Stopped(); ++round)
      since = Improve(round) ? 0 : since + 1;
    return std::move(best_);
  }

 private:
  bool Stopped() const { return IsLate(problem_); }

  Preferences Decoded(const Trial& trial) const { return Decode(trial.at, candidates_, *problem_.workload); }

  // Leaves those that are no slower than the limit, each time once, the fastest first.
  void RollOut(std::vector<Trial>& trials, Nanos limit) {
    ForEachIndex(trials.size(), options_.threads, [&](std::size_t i) {
      if (Stopped()) return;
      const Preferences preferences = Decoded(trials[i]);
      Rollout rollout(levels_[trials[i].level], preferences, /*record=*/false);
      rollout.StopAfter(limit);
      if (rollout.Run()) trials[i].time = rollout.time();
    });
    std::erase_if(trials, [](const Trial& trial) { return trial.time == kInfeasible; });
    std::ranges::stable_sort(trials, {}, &Trial::time);
    const auto same = std::ranges::unique(trials, {}, &Trial::time);
    trials.erase(same.begin(), same.end());
  }

  std::optional<Fitted> Placed(const Trial& trial) const {
    const sim::Workload& workload = *problem_.workload;
    const Preferences preferences = Decoded(trial);
    Rollout rollout(levels_[trial.level], preferences, /*record=*/true);
    if (!rollout.Run()) return std::nullopt;
    Fitted out{.schedule = sim::Trimmed(workload, problem_.link, rollout.TakeSchedule())};
    const Bytes budget = problem_.limits.budget;
    out.height = PlaceQuickly(workload, out.schedule, budget, problem_.cancelled, problem_.deadline);
    if (out.height > budget) return std::nullopt;
    const sim::Outcome outcome = sim::Simulate(workload, out.schedule, problem_.link);
    out.time = outcome.time;
    if (outcome.host_peak > problem_.limits.host) return std::nullopt;
    return out;
  }

  // Takes the first that has addresses and is faster than the best; whether there is one.
  bool PlaceFirst(const std::vector<Trial>& trials, std::size_t most) {
    const std::size_t count = std::min({trials.size(), most, to_place_});
    for (std::size_t from = 0; from < count && !Stopped(); from += kPlacedAtOnce) {
      std::vector<std::optional<Fitted>> placed(std::min(kPlacedAtOnce, count - from));
      to_place_ -= placed.size();
      ForEachIndex(placed.size(), options_.threads, [&](std::size_t i) { placed[i] = Placed(trials[from + i]); });
      for (std::size_t i = 0; i < placed.size(); ++i) {
        if (!placed[i] || (best_ && placed[i]->time >= best_->time)) continue;
        best_ = std::move(placed[i]);
        at_ = trials[from + i];
        return true;
      }
    }
    return false;
  }

  // Small changes, for as much memory as the best had or a little more or less.
  bool Improve(std::uint64_t round) {
    std::vector<Trial> trials;
    for (int i = 0; i < options_.particles; ++i) {
      Random random((options_.seed * 0x2545f4914f6cdd1du) ^ (round << 20) ^ (static_cast<std::uint64_t>(i) << 1));
      random.Next();
      const std::size_t shift = random.Below(4);  // one more than a step down
      const std::size_t level = std::min(at_.level + 1 - std::min(at_.level + 1, shift), levels_.size() - 1);
      trials.push_back({Mutate(at_.at, random), level});
    }
    RollOut(trials, best_->time - 1);
    return PlaceFirst(trials, kPlacedPerRound);
  }

  const Problem& problem_;
  const Nanos enough_;
  const SearchOptions& options_;
  const Candidates candidates_;
  std::vector<Problem> levels_;
  std::size_t to_place_;
  std::optional<Fitted> best_;
  Trial at_;  // that led to the best
};

}  // namespace

std::optional<Fitted> FitAddresses(const Problem& problem, const std::vector<Preferences>& preferences, Nanos enough,
                                   const SearchOptions& options) {
  if (preferences.empty()) return std::nullopt;
  return Fitting(problem, enough, options).Run(preferences);
}

}  // namespace ebbtide::plan
