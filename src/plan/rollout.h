// From preferences to a schedule: runs the step on a machine with a byte budget, and gives up, copies, fetches and
// recomputes storages as the memory requires. Any preferences give a schedule within the budget, or none exists for
// them.
//
// A storage is idle between two ops that need it. When memory is short, idle storages are given up, those that cost
// least for their bytes and for the time until they are needed first; preferences shift that order.
#pragma once

#include <vector>

#include "plan/chains.h"
#include "plan/driver.h"
#include "plan/forecast.h"

namespace ebbtide::plan {

enum class Choice : std::uint8_t { kKeep, kSwap, kRecompute };

struct Preferences {
  // By storage. Swap: it may be copied to the host in its longest idle time, when the stream is free. Recompute: it is
  // the first to be given up. Keep: it is given up when nothing else helps, in the order of cost and weight.
  std::vector<Choice> choice;
  std::vector<float> weight;     // by storage, in doublings of its cost
  double distance_power = 1.0;   // how much the time until the next need counts against the cost
  double staleness_power = 0.0;  // ... and how much the time since the last use
  double batch = 4;              // one in 2^batch idle storages is chosen at once to be given up, the cheapest
};

Preferences Neutral(const sim::Workload& workload);

class Rollout : public Driver {
 public:
  // Neither argument may go before it.
  Rollout(const Problem& problem, const Preferences& preferences, bool record);

 private:
  struct Victim {
    float key;
    Index storage;
    Index next_use;
  };

  bool MakeRoom(Bytes room) override;
  void BeforeOp(Index op) override;
  void BecomeIdle(Index s) override;
  void EndIdle(Index s) override;
  void BecomeGone(Index s) override;
  void EndGone(Index s) override;
  void ComeBack(Index s) override;

  void Prefetch();
  void BeginCopies();
  bool GiveUpOne();
  void GiveUp(Index s);
  void PickVictims();
  bool IsFirst();
  bool CanLeaveNow(Index s) const;
  float KeyOf(Index s, Index next_use);

  const Preferences& preferences_;
  std::vector<Nanos> last_used_;           // by storage: when it became idle
  std::vector<Index> idle_;                // those that can leave
  std::vector<std::uint32_t> idle_place_;  // by storage, into idle_; kNone
  std::vector<std::pair<float, Index>>
      may_leave_;                         // (value, storage): may be copied to the host; a heap, dearest first
  std::vector<Index> leaving_;            // copies to the host that were begun, in order
  std::vector<std::uint8_t> is_leaving_;  // by storage: its copy was begun, and it has not left since
  std::size_t first_leaving_ = 0;
  std::vector<Victim> victims_;                // chosen, not yet given up; the first to go is last
  Index victims_from_ = 0;                     // the step at which they were chosen
  std::vector<std::pair<Index, Index>> away_;  // (next use, storage): on the host only; a heap, soonest first
  Forecast forecast_;                          // kept up where copies may come back
  std::vector<Index> missing_from_;            // by storage: the op from which the forecast counts its return; kNone
  Chains gone_;                                // what making again would take
};

}  // namespace ebbtide::plan
