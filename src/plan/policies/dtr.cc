// DTR (Kirisame et al., 2021): when memory is full, evict the storage with the least (cost of making it and its evicted
// neighbours again) / (bytes x time since it was last used); make it again when it is needed. It knows nothing of what
// comes, and holds what the program still refers to.
#include "plan/policies/policy.h"
#include "plan/search/chains.h"
#include "plan/search/driver.h"

namespace ebbtide::plan {
namespace {

class Dtr : public Driver {
 public:
  explicit Dtr(const Problem& problem)
      : Driver(problem, /*record=*/true, Freeing::kLastReference),
        last_used_(workload_.storages(), 0),
        place_(workload_.storages(), kNotIdle),
        gone_(problem) {}

 private:
  static constexpr std::uint32_t kNotIdle = ~std::uint32_t{0};

  void BecomeIdle(StorageId s) override {
    last_used_[s] = machine_.now();
    if (!CanRemake(s) || workload_.bytes[s] == 0) return;
    place_[s] = static_cast<std::uint32_t>(idle_.size());
    idle_.push_back(s);
  }
  void EndIdle(StorageId s) override {
    if (place_[s] == kNotIdle) return;
    place_[idle_.back()] = place_[s];
    idle_[place_[s]] = idle_.back();
    idle_.pop_back();
    place_[s] = kNotIdle;
  }
  void BecomeGone(StorageId s) override { gone_.Add(s); }
  void EndGone(StorageId s) override { gone_.Remove(s); }

  double ScoreOf(StorageId s) {
    const double staleness = static_cast<double>(machine_.now() - last_used_[s] + 1);
    return static_cast<double>(gone_.CostWith(s)) / (static_cast<double>(workload_.bytes[s]) * staleness);
  }

  bool MakeRoom(Bytes room) override {
    while (machine_.used() + room > problem_.limits.budget) {
      if (idle_.empty()) return false;
      StorageId victim;
      double least = 0;
      for (const StorageId s : idle_) {
        const double score = ScoreOf(s);
        if (!victim.valid() || std::pair(score, s) < std::pair(least, victim)) least = score, victim = s;
      }
      Forget(victim);
    }
    return true;
  }

  IdVector<StorageId, Nanos> last_used_;
  std::vector<StorageId> idle_;
  IdVector<StorageId, std::uint32_t> place_;  // into idle_
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
