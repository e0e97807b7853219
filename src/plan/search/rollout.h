// From preferences to a schedule: runs the step on a machine with a byte budget, and gives up, copies, fetches and
// recomputes storages as the memory requires. Any preferences give a schedule within the budget, or none exists for
// them.
//
// A storage is idle between two ops that need it. When memory is short, idle storages are given up, those that cost
// least for their bytes and for the time until they are needed first; preferences shift that order.
#pragma once

#include <vector>

#include "plan/search/chains.h"
#include "plan/search/driver.h"
#include "plan/search/forecast.h"

namespace ebbtide::plan {

enum class Choice : std::uint8_t { kKeep, kSwap, kRecompute };

struct Preferences {
  // By storage. Swap: it may be copied to the host in its longest idle time, when the stream is free. Recompute: it is
  // the first to be given up. Keep: it is given up when nothing else helps, in the order of cost and weight.
  IdVector<StorageId, Choice> choice;
  IdVector<StorageId, float> weight;  // in doublings of its cost
  double distance_power = 1.0;        // how much the time until the next need counts against the cost
  double staleness_power = 0.0;       // ... and how much the time since the last use
  double batch = 4;                   // one in 2^batch idle storages is chosen at once to be given up, the cheapest
  // What is given up goes to the host whatever that takes, and nothing comes back before it is needed: no op then has
  // anything beside what it needs because something else has to be made again.
  bool nothing_again = false;
};

Preferences Neutral(const sim::Workload& workload);

class Rollout : public Driver {
 public:
  // Both arguments must outlive it.
  Rollout(const Problem& problem, const Preferences& preferences, bool record);

 private:
  static constexpr std::uint32_t kNotIdle = ~std::uint32_t{0};

  struct Away {
    OpId next_use;
    StorageId storage;

    // Whether it is needed later; what no op needs is last.
    bool operator>(const Away& other) const {
      return std::pair(NoneLast(next_use), storage) > std::pair(NoneLast(other.next_use), other.storage);
    }
  };
  struct Victim {
    float key;
    StorageId storage;
    OpId next_use;
  };

  bool MakeRoom(Bytes room) override;
  void BeforeOp(OpId op) override;
  void BecomeIdle(StorageId s) override;
  void EndIdle(StorageId s) override;
  void BecomeGone(StorageId s) override;
  void EndGone(StorageId s) override;
  void ComeBack(StorageId s) override;

  void Prefetch();
  void BeginCopies();
  bool GiveUpOne();
  bool WaitForCopy();
  void GiveUp(StorageId s);
  void PickVictims();
  bool IsFirst();
  bool CanLeaveNow(StorageId s) const;
  float KeyOf(StorageId s, OpId next_use);

  const Preferences& preferences_;
  IdVector<StorageId, Nanos> last_used_;           // when it became idle
  std::vector<StorageId> idle_;                    // those that can leave
  IdVector<StorageId, std::uint32_t> idle_place_;  // into idle_; kNotIdle: it is not there
  std::vector<std::pair<float, StorageId>>
      may_leave_;                                 // (value, storage): may be copied to the host; a heap, dearest first
  std::vector<StorageId> leaving_;                // copies to the host that were begun, in order
  IdVector<StorageId, std::uint8_t> is_leaving_;  // its copy was begun, and it has not left since
  std::size_t first_leaving_ = 0;
  std::vector<Victim> victims_;             // chosen, not yet given up; the first to go is last
  std::size_t victims_from_ = 0;            // steps run when they were chosen
  std::vector<Away> away_;                  // a heap, soonest needed first; some are back, or have left anew, since
  Forecast forecast_;                       // kept up where copies may come back
  IdVector<StorageId, OpId> missing_from_;  // the op from which the forecast counts its return; none: it does not
  Chains gone_;                             // what making again would take
  IdVector<OpId, std::uint16_t> owing_;     // of what it makes, how many are gone and needed by an op to come
};

}  // namespace ebbtide::plan
