// Runs a step on a machine op by op: brings what each op needs, by a copy from the host or by making it again, and lets
// go of what nobody wants any more. What to give up, and when, is for derived classes to say.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "plan/problem.h"
#include "sim/machine.h"

namespace ebbtide::plan {

// When a storage that no op wants any more is freed.
enum class Freeing : std::uint8_t { kLastUse, kLastReference };

class Driver {
 public:
  explicit Driver(const Problem& problem, bool record, Freeing freeing = Freeing::kLastUse);
  virtual ~Driver() = default;

  // False: there was no room for something, or ops ran again beyond all measure, or the problem was cancelled, or its
  // deadline has passed.
  bool Run();
  // Run() goes on behind the deadline: this is the answer, and not one of many trials.
  void FinishEvenLate() { finishes_even_late_ = true; }
  // Stops as soon as it is clear that the step takes longer than `limit`: Run() then gives false.
  void StopAfter(Nanos limit) { time_limit_ = limit; }

  Nanos time() const { return machine_.finish(); }
  Bytes peak() const { return peak_; }
  sim::Schedule TakeSchedule() { return machine_.TakeSchedule(); }

 protected:
  // ---- For derived classes to say
  // Brings the bytes in use to the budget less `room`; false: it cannot.
  virtual bool MakeRoom(Bytes room) = 0;
  virtual void BeforeOp(OpId /*op*/) {}
  virtual void AfterOp(OpId /*op*/) {}
  // The storage is on the device, an op of the graph wants it later (or a reference holds it), and no running op needs
  // it; it no longer is so.
  virtual void BecomeIdle(StorageId /*s*/) {}
  virtual void EndIdle(StorageId /*s*/) {}
  // It is neither on the device nor on the host; it has been made again.
  virtual void BecomeGone(StorageId /*s*/) {}
  virtual void EndGone(StorageId /*s*/) {}
  // It is back on the device, by a copy or made again.
  virtual void ComeBack(StorageId /*s*/) {}

  // ---- For derived classes to use
  // The next op of the graph that needs it; none: no op does.
  OpId NextUse(StorageId s) const {
    const auto uses = workload_.uses[s];
    return next_use_place_[s] < uses.size() ? uses[next_use_place_[s]] : OpId();
  }
  // The next op of the graph that wants it, or wants something that is gone and is made from it; none: no op
  // does.
  OpId NextWish(StorageId s) const;
  bool IsLocked(StorageId s) const { return locks_[s] > 0; }
  bool CanRemake(StorageId s) const { return problem_.limits.may_recompute && !workload_.recipe[s].empty(); }
  // An idle storage leaves: without a trace, or once the host has its copy.
  void Forget(StorageId s);
  void LeaveForHost(StorageId s);
  // Takes memory for the copy; there must be room.
  void BringBack(StorageId s);

  const Problem& problem_;
  const sim::Workload& workload_;
  sim::Machine machine_;
  OpId next_op_{0};  // the graph's op that is about to run
  Nanos owed_ = 0;   // time that certainly goes into making things again; a derived class may know

 private:
  struct Frame {
    StorageId storage;
    std::uint32_t recipe_place = 0;
    std::uint32_t need_place = 0;
  };
  bool IsOver() const { return finishes_even_late_ ? IsCancelled(problem_) : IsLate(problem_); }
  void Lock(StorageId s);
  void Unlock(StorageId s);
  bool Require(OpId op);
  bool Fetch(StorageId s);
  bool Remake(StorageId s);
  // Changes that are still to come are for the graph's own ops to make.
  std::span<const OpId> RecipeSoFar(StorageId s) const;
  bool RunOnce(OpId op, bool again);
  void Release(OpId op);
  void LetGo(StorageId s);
  bool FindRoom(Bytes room);
  bool IsReferenced(StorageId s) const {
    return held_until_ != nullptr && !workload_.outlives[s] && (*held_until_)[s].valid() &&
           (*held_until_)[s] > next_op_;
  }

  Freeing freeing_;
  // Behind which op a storage goes that none wants any more: with its last reference, or when the communication stream
  // is done with it. Null: with its last use.
  const IdVector<StorageId, OpId>* held_until_ = nullptr;
  sim::Lists<OpId, StorageId> dereferenced_;  // by op: what is held until then
  Bytes peak_ = 0;
  std::size_t most_steps_;
  Nanos time_limit_ = std::numeric_limits<Nanos>::max();
  bool finishes_even_late_ = false;
  IdVector<StorageId, std::uint32_t> next_use_place_;  // into workload.uses
  IdVector<StorageId, std::uint16_t> locks_;           // running ops that need it
  IdVector<StorageId, std::uint8_t> is_idle_;
  std::vector<Frame> stack_;  // what is being made again, the innermost last
  std::vector<StorageId> also_made_;
  std::vector<StorageId> held_;  // that no op wants, while the communication stream may use them; in order
};

}  // namespace ebbtide::plan
