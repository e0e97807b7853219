// Local search over decisions: runs again are added, removed and moved, one or a chain at a time, first until the
// memory is within the budget and then for less time (simulated annealing with a price on what is above the budget).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "plan/decide/retention.h"
#include "plan/search/position.h"

namespace ebbtide::plan {

struct Decided {
  std::vector<RunAgain> runs;
  Nanos again = 0;   // what the runs again take
  Bytes excess = 0;  // 0: within the budget
};

class Improver {
 public:
  // All must outlive it.
  Improver(const Problem& problem, const Units& units, const std::vector<Absence>& absences, std::uint64_t seed);

  // Begins from these decisions.
  void Start(const std::vector<RunAgain>& runs);
  // Makes `evaluations` changes, from `warm` (1: the beginning of a search) cooling down to `cold` (0: its end). Looks
  // at `stop` now and then.
  void Run(std::int64_t evaluations, double warm, double cold, const std::function<bool()>& stop);
  // Lowers the peak step by step until it is within the budget; whether that is so. `heat` as above.
  bool Fit(std::int64_t evaluations, double heat, const std::function<bool()>& stop);
  // Of the last Fit: the decisions with the lowest peak.
  const std::vector<RunAgain>& lowest() const { return lowest_; }
  // The best so far: within the budget if any was, and then the fastest; else the one that is the least above it.
  const Decided& best() const { return best_; }
  std::int64_t evaluations() const { return evaluations_; }
  const Retention& state() const { return state_; }

 private:
  struct Change {
    bool added;
    UnitId unit;
    Moment at;
  };

  double Cost() const { return static_cast<double>(state_.again()) + price_ * state_.levels().weighted(); }
  Moment Add(UnitId unit, RunId before);
  void Remove(Moment at);
  void UndoTo(std::size_t mark);
  void Step();
  void Adjust(int enough);
  void SetHeat(double heat);
  bool Propose();
  bool Shorten();
  bool DropSome();
  bool Move();
  bool Exchange();
  void Grow(UnitId unit, RunId before, int depth);
  void RemoveWithFeeders(Moment at);
  void Keep();

  const Problem& problem_;
  const sim::Workload& workload_;
  const Units& units_;
  Retention state_;
  Random random_;
  std::vector<StorageId> candidates_;  // that may be dropped for a while
  std::vector<double> weights_;        // running sums
  double price_ = 0;                   // of a byte above the budget in one stage, in nanoseconds
  double first_price_ = 1;
  double scale_ = 1;  // a typical change in time
  double temperature_ = 0;
  int allowance_ = 0;        // changes that the proposal at hand may still make
  std::vector<Change> log_;  // of the proposal at hand
  std::int64_t evaluations_ = 0;
  std::vector<RunAgain> lowest_;
  Decided best_;
  bool has_best_ = false;
};

}  // namespace ebbtide::plan
