// From preferences to a schedule: runs the step on a machine with a byte budget, and gives up, copies, fetches and
// recomputes storages as the memory requires. Any preferences give a schedule within the budget, or none exists for them.
//
// A storage is idle between two ops that need it. When memory is short, idle storages are given up, those that cost
// least for their bytes and for the time until they are needed first; preferences shift that order.
#pragma once

#include <vector>

#include "plan/forecast.h"
#include "plan/problem.h"
#include "sim/machine.h"

namespace ebbtide::plan {

enum class Choice : std::uint8_t { kKeep, kSwap, kRecompute };

struct Preferences {
  // By storage. Swap: it may be copied to the host in its longest idle time, when the stream is free. Recompute: it is
  // the first to be given up. Keep: it is given up when nothing else helps, in the order of cost and weight.
  std::vector<Choice> choice;
  std::vector<float> weight;      // by storage, in doublings of its cost
  double distance_power = 1.0;    // how much the time until the next need counts against the cost
  double batch = 4;               // one in 2^batch idle storages is chosen at once to be given up, the cheapest
};

Preferences Neutral(const sim::Workload& workload);

// Groups of storages that would have to be made again together, each with its cost: a union-find whose members may leave.
class Chains {
 public:
  explicit Chains(std::size_t storages) : node_(storages, sim::kNone) {}
  bool Has(Index s) const { return node_[s] != sim::kNone; }
  void Add(Index s, Nanos cost);
  void Join(Index a, Index b);
  // The group keeps its other members together, as if the one that leaves still linked them.
  void Remove(Index s, Nanos cost);
  Index GroupOf(Index s) { return Find(node_[s]); }
  Nanos CostOf(Index group) const { return cost_[group]; }

 private:
  Index Find(Index node);
  std::vector<Index> node_;    // by storage
  std::vector<Index> parent_;  // by node
  std::vector<Nanos> cost_;    // by node, of the group it is the root of
};

class Rollout {
 public:
  Rollout(const Problem& problem, const Preferences& preferences, bool record);

  // False: at some op even giving up all that is idle leaves too little, or ops run again beyond all measure.
  bool Run();
  // Stops as soon as the clock passes `limit`: Run() then gives false.
  void StopAfter(Nanos limit) { time_limit_ = limit; }

  Nanos time() const { return machine_.finish(); }
  Bytes peak() const { return peak_; }
  sim::Schedule TakeSchedule() { return machine_.TakeSchedule(); }

 private:
  struct Frame {
    Index storage;
    std::uint32_t recipe_place = 0;
    std::uint32_t need_place = 0;
  };
  struct Victim {
    float key;
    Index storage;
    Index next_use;
  };

  Index NextUse(Index s) const;
  void Lock(Index s);
  void Unlock(Index s);

  bool Require(Index op);
  bool Fetch(Index s);
  bool Remake(Index s);
  bool RunOnce(Index op, bool again);
  bool MakeRoom(Bytes room);
  bool GiveUpOne();
  void PickVictims();
  bool IsFirst();
  bool CanLeaveNow(Index s) const;
  float KeyOf(Index s, Index next_use);
  void Miss(Index s);
  void Welcome(Index s);
  void JoinGone(Index s);
  void LeaveGone(Index s);
  void GiveUp(Index s);
  void AfterNeeds(Index op);
  void BecomeIdle(Index s);
  void Prefetch();
  void BeginCopies();

  const Problem& problem_;
  const sim::Workload& workload_;
  const Preferences& preferences_;
  sim::Machine machine_;
  Index next_op_ = 0;  // the graph's op that is about to run
  Bytes peak_ = 0;
  std::size_t most_steps_;
  Nanos time_limit_;
  std::vector<std::uint32_t> next_use_place_;  // by storage, into workload.uses
  std::vector<std::uint16_t> locks_;
  std::vector<Index> idle_;                    // storages on the device that no running op needs
  std::vector<std::uint32_t> idle_place_;      // by storage, into idle_; kNone
  std::vector<Index> leaving_;                 // copies to the host under way, in order
  std::size_t first_leaving_ = 0;
  std::vector<Victim> victims_;                // chosen, not yet given up; the first to go is last
  Index victims_from_ = 0;                     // the step at which they were chosen
  std::vector<std::pair<Index, Index>> away_;  // (next use, storage): on the host only; a heap, soonest first
  std::vector<Frame> stack_;
  std::vector<Index> also_made_;
  std::vector<Index> groups_;
  Forecast forecast_;                          // kept up where copies may come back
  std::vector<Index> missing_from_;            // by storage: the op from which the forecast counts its return; kNone
  Chains gone_;  // storages that are nowhere, joined where one is made from the other
};

}  // namespace ebbtide::plan
