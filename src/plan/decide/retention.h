// A schedule as decisions: which units run again, and when. Everything else follows.   ◀ start reading here
//
// A *stage* is the time before the first run of an op, with that run: stage t ends with the first run of op t, and one
// more stage ends the iteration. Units may run again in any stage, in any order, more than once. A run takes what it
// needs from the latest run that made it; so a storage is retained from each run that makes it to the last that takes
// it from there, and from no longer. Any set of runs is a valid schedule, then; only its memory may exceed the budget.
//
// Memory is kept by stage: what is retained through all of a stage, and the most of what comes and goes in it. A run
// that is added or removed costs what it changes, not a whole step (tests/plan/retention_test.cc holds it against
// counting from nothing).
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "plan/decide/levels.h"
#include "plan/decide/units.h"

namespace ebbtide::plan {

using RunId = Id<struct RunTag>;  // first runs have the numbers of their ops; the end of the iteration comes next
using Moment = std::uint64_t;     // of a run; moments are in the order of time

// Runs again, in the order of time: what is needed to have the decisions again.
struct RunAgain {
  OpId stage;
  UnitId unit;
  bool operator==(const RunAgain&) const = default;
};

// A storage is on the host for a while. All stages are meant as their beginnings.
struct Absence {
  StorageId storage;
  // Its copy to the host is queued; its memory is given up, and compute waits for the copy. Neither where has_copy.
  OpId leave, to;
  OpId from;               // it has memory again, and its copy to the device is queued
  bool has_copy = false;   // the host has its contents from before: nothing is copied to it
  std::uint32_t turn = 0;  // as in sim::Stay
};

class Retention {
 public:
  // Problem and units must outlive it. No unit runs again. The absences are given, not decided about here; while a run
  // again takes a storage that is absent, it is retained for it all the same.
  Retention(const Problem& problem, const Units& units, std::vector<Absence> absences = {});

  // ---- Decisions
  // Whether the unit may run again in the stage.
  bool May(UnitId unit, OpId stage) const;
  // The unit runs again just before `before`, a run of a stage in which it may. Its moment; 0: there is no moment left
  // between the two that it would come between, and nothing has changed.
  Moment Add(UnitId unit, RunId before);
  // ... at a moment at which no other run is.
  void AddAt(UnitId unit, Moment moment);
  // Of a run again.
  void RemoveAt(Moment moment);
  // All of them; those before go. What may not run there, or is of no use to any run, is left out.
  void Load(std::span<const RunAgain> runs);
  std::vector<RunAgain> Save() const;

  // ---- What follows
  Nanos again() const { return again_; }
  const Levels& levels() const { return levels_; }
  void SetBudget(Bytes budget) { levels_.SetBudget(budget); }
  // Stages that are above the budget weigh more in what the search pays.
  void Learn() { levels_.Learn(); }
  Bytes peak() const { return levels_.Most(); }
  // The memory of each stage from nothing, as levels() should have it.
  std::vector<Bytes> CountedLevels() const;

  // ---- To look at
  struct Event {
    Moment at;
    RunId run;   // none: a copy from the host, or to it
    bool makes;  // otherwise it takes
  };
  // Of a storage that is made in the step, in the order of time; the end takes what outlives the step.
  std::span<const Event> events(StorageId s) const { return events_[s]; }
  const std::vector<RunId>& active() const { return active_; }  // runs again, in no order
  Moment at(RunId run) const { return runs_[run].at; }
  UnitId unit(RunId run) const { return runs_[run].unit; }  // none: a first run
  static OpId StageOf(Moment moment) { return OpId(static_cast<std::size_t>(moment >> kPlaceBits)); }
  // Its needs that are followed: without state.
  std::vector<StorageId> needs(RunId run) const;
  RunId RunAt(Moment moment) const;
  // The run behind it in time, a run again or the first run that ends the stage. Not for the end.
  RunId Next(RunId run) const;
  // Whether nobody takes what the run again makes.
  bool IsUseless(RunId run) const;

  sim::Schedule ToSchedule() const;

 private:
  static constexpr int kPlaceBits = 40;
  struct Run {
    UnitId unit;
    Moment at = 0;
    std::uint32_t needs = 0;  // how many of the unit's
    std::uint32_t active_place = 0;
    Bytes scratch = 0;
    Nanos time = 0;
  };

  RunId end_run() const { return RunId(workload_->ops()); }
  template <class Visit>
  void ForNeeds(const Run& run, RunId id, const Visit& visit) const;
  std::size_t Find(StorageId s, Moment moment) const;
  void InsertMake(StorageId s, Moment at, RunId run);
  void RemoveMake(StorageId s, Moment at);
  void InsertTake(StorageId s, Moment at, RunId run);
  void RemoveTake(StorageId s, Moment at);
  void Cover(std::size_t from, std::size_t to, Bytes bytes) { levels_.Add(from, to, bytes); }
  void LoadAbsences();
  void Touch(std::size_t stage);
  void Refresh();
  Bytes Inner(std::size_t stage) const;

  const sim::Workload* workload_;
  const Units* units_;
  std::vector<Absence> absences_;
  // By stage: storages that come from the host at its beginning; that are held to its end for their copy to the host.
  std::vector<std::vector<StorageId>> coming_, leaving_;
  IdVector<OpId, std::vector<StorageId>> first_needs_;  // without state; one more, for the end
  IdVector<RunId, Run> runs_;
  std::vector<RunId> free_;  // numbers of runs that went
  std::vector<RunId> active_;
  std::vector<std::vector<RunId>> stages_;  // runs of each, in the order of time
  IdVector<StorageId, std::vector<Event>> events_;
  Bytes state_ = 0;
  std::vector<Bytes> inner_;  // by stage, as levels_ counts it
  Levels levels_;
  Nanos again_ = 0;
  std::vector<std::size_t> touched_;
  std::vector<std::uint8_t> is_touched_;
  mutable IdVector<StorageId, std::uint32_t> seen_;  // made in the stage that is being counted
  mutable std::uint32_t count_ = 0;
};

}  // namespace ebbtide::plan
