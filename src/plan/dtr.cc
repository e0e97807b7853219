// DTR (Kirisame et al., 2021): when memory is full, evict the storage with the least (cost of making it and its evicted
// neighbours again) / (bytes x time since it was last used); make it again when it is needed. It knows nothing of what
// comes, and holds what the program still refers to.
#include "plan/chains.h"
#include "plan/driver.h"
#include "plan/policy.h"

namespace ebbtide::plan {
namespace {

class Dtr : public Driver {
 public:
  explicit Dtr(const Problem& problem)
      : Driver(problem, /*record=*/true, Freeing::kLastReference),
        last_used_(workload_.storages(), 0),
        place_(workload_.storages(), sim::kNone),
        gone_(problem) {}

 private:
  void BecomeIdle(Index s) override {
    last_used_[s] = machine_.now();
    if (!CanRemake(s) || workload_.bytes[s] == 0) return;
    place_[s] = static_cast<Index>(idle_.size());
    idle_.push_back(s);
  }
  void EndIdle(Index s) override {
    if (place_[s] == sim::kNone) return;
    place_[idle_.back()] = place_[s];
    idle_[place_[s]] = idle_.back();
    idle_.pop_back();
    place_[s] = sim::kNone;
  }
  void BecomeGone(Index s) override { gone_.Add(s); }
  void EndGone(Index s) override { gone_.Remove(s); }

  double ScoreOf(Index s) {
    const double staleness = static_cast<double>(machine_.now() - last_used_[s] + 1);
    return static_cast<double>(gone_.CostWith(s)) / (static_cast<double>(workload_.bytes[s]) * staleness);
  }

  bool MakeRoom(Bytes room) override {
    while (machine_.used() + room > problem_.limits.budget) {
      if (idle_.empty()) return false;
      Index victim = sim::kNone;
      double least = 0;
      for (const Index s : idle_) {
        const double score = ScoreOf(s);
        if (victim == sim::kNone || std::pair(score, s) < std::pair(least, victim)) least = score, victim = s;
      }
      Forget(victim);
    }
    return true;
  }

  std::vector<Nanos> last_used_;
  std::vector<Index> idle_, place_;
  Chains gone_;
};

}  // namespace

PolicyResult RunDtr(const PolicyInput& input) {
  if (!input.problem.limits.may_recompute) return {};
  Dtr dtr(input.problem);
  if (!dtr.Run()) return {};
  return Found(dtr.TakeSchedule());
}

}  // namespace ebbtide::plan
