// Drives a step and lets storages leave and come back by chance.
#include "tests/plan/wild_schedule.h"

#include <algorithm>
#include <random>
#include <set>

#include "plan/search/driver.h"

namespace ebbtide::plan {
namespace {

class Wild : public Driver {
 public:
  Wild(const Problem& problem, std::uint64_t seed, bool state_may_leave)
      : Driver(problem, /*record=*/true), random_(seed), state_may_leave_(state_may_leave) {
    // Some are calm, some never rest.
    leaves_ = std::uniform_real_distribution<double>(0, 0.5)(random_);
    returns_ = std::uniform_real_distribution<double>(0, 0.5)(random_);
  }

 private:
  bool Chance(double share) { return std::bernoulli_distribution(share)(random_); }

  bool MakeRoom(Bytes /*room*/) override { return true; }
  void BecomeIdle(StorageId s) override {
    if (state_may_leave_ || !workload_.IsState(s)) idle_.insert(s);
  }
  void EndIdle(StorageId s) override { idle_.erase(s); }
  void ComeBack(StorageId s) override { away_.erase(s); }

  void BeforeOp(OpId /*op*/) override {
    for (const StorageId s : std::vector<StorageId>(away_.begin(), away_.end())) {
      if (Chance(returns_)) BringBack(s);
    }
    if (machine_.steps() == 0) return;  // nothing leaves before anything has run
    for (const StorageId s : std::vector<StorageId>(idle_.begin(), idle_.end())) {
      if (machine_.Settled(s) && Chance(leaves_)) Leave(s);
    }
  }

  void Leave(StorageId s) {
    if (!machine_.OnHost(s) && CanRemake(s) && Chance(0.5)) {
      Forget(s);
      return;
    }
    const bool has_room = machine_.host_used() + workload_.bytes[s] <= problem_.limits.host;
    if (!problem_.limits.may_swap || (!machine_.OnHost(s) && !has_room)) return;
    if (!machine_.OnHost(s) && Chance(0.5)) {
      machine_.BeginCopyOut(s);  // it leaves later, or is needed before
      return;
    }
    LeaveForHost(s);
    away_.insert(s);
  }

  std::mt19937_64 random_;
  bool state_may_leave_;
  double leaves_ = 0, returns_ = 0;  // chance of each storage at each op
  std::set<StorageId> idle_, away_;
};

}  // namespace

std::optional<sim::Schedule> WildSchedule(const Problem& problem, std::uint64_t seed, bool state_may_leave) {
  Wild wild(problem, seed, state_may_leave);
  if (!wild.Run()) return std::nullopt;
  return wild.TakeSchedule();
}

}  // namespace ebbtide::plan
