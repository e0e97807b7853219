// Executes a plan: runs its ops, moves its storages, and leaves everything as it was when a step comes to nothing.
//
// Between steps the pool holds all state (parameters, buffers, optimizer state) where the plan's iteration begins with
// it; who owns it puts it there before the first step (home) and may read and change it between steps. A step that
// fails before its update has begun is undone: state and random state are as before. In the update nothing is allocated
// but what the plan has a place for, and a copy that fails is made again; so the update ends.
//
// Several engines may share a pool, each on a device of its own (Device::Beside), in a thread of its own, in a part of
// the pool that it is given (berth.h), when it is its turn (gate.h).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "run/berth.h"
#include "run/clock.h"
#include "run/device.h"
#include "run/gate.h"
#include "run/itinerary.h"
#include "run/op_runner.h"
#include "run/step_memory.h"
#include "sim/simulate.h"

namespace ebbtide::run {

// Bytes of a storage from `offset` on, and where they come from or go to on the host.
struct HostSpan {
  Index storage = 0;
  Bytes offset = 0;
  std::byte* host = nullptr;
  Bytes bytes = 0;
};

struct StepCall {
  std::vector<double> scalars = {};    // the graph's, in its order
  std::vector<HostSpan> inputs = {};   // copied to the device before the first op
  std::vector<HostSpan> outputs = {};  // copied to the host after the last
  // Where storages lie that are outside the pool: all that the ops of this call need, until it returns.
  std::vector<std::pair<Index, std::byte*>> outside = {};
  std::function<bool()> interrupted = {};  // asked now and then until the update begins; may be empty
  Gate* gate = nullptr;                    // of a pool that is shared
};

// What one step did.
struct StepReport {
  Nanos time = 0;
  Nanos recompute = 0;        // in ops that ran again
  Nanos wait_for_memory = 0;  // stood still for copies to the host
  Nanos wait_for_data = 0;    // ... for copies to the device
  Nanos drain = 0;            // from the last op to the last copy
  Nanos moving_in = 0;        // before the first op: inputs, what an undo needs
  Nanos wait_for_turn = 0;    // at gates: before it began, which is not in `time`, and between its groups
  Bytes peak = 0;             // one past the highest address in use, as the plan has them
  Bytes live_peak = 0;        // the most bytes in use at once
  Bytes copied_out = 0, copied_in = 0;
  Bytes beyond_plan = 0;       // scratch memory that ops asked for and the plan did not know of; it is within the pool
  std::int64_t relocated = 0;  // storages that an op made elsewhere than planned, and that were moved
  std::vector<Nanos> step_time;  // by step
  // In a pool that is shared, of each group: when its first op began and its last ended, by run::Now.
  std::vector<std::pair<Nanos, Nanos>> groups;
};

class Engine {
 public:
  // The plan is valid for the graph. `runner` may not go before the engine. Fails where the pool is too small.
  static Result<std::unique_ptr<Engine>> Make(TrainingGraph graph, plan::Plan plan, std::shared_ptr<Device> device,
                                              OpRunner& runner);

  const TrainingGraph& graph() const { return graph_; }
  const plan::Plan& plan() const { return plan_; }
  const sim::Workload& workload() const { return workload_; }
  Device& device() { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  // Where in the pool the step lies from now on. State is to be put there then, where home says. Fails, and has changed
  // nothing, where the plan does not fit.
  Status Moor(Berth berth);
  const Berth& berth() const { return berth_; }
  // By storage: where state is from step to step; -1 for what is not state.
  const std::vector<Bytes>& home() const { return now_->itinerary.home; }
  // By op: in which of its requests for memory the storages that it makes come. Learnt from its first run where they
  // are not set. See step_memory.h.
  std::vector<Requests>& requests() { return requests_; }
  StepMemory& memory() { return memory_; }

  tl::expected<StepReport, Failure> Step(const StepCall& call);
  // The last step that succeeded, as the simulator tells of steps, with its timeline.
  const sim::Outcome& outcome() const { return outcome_; }

  // The step in two halves, for a framework that itself decides when backward begins. Between them the pool keeps what
  // backward needs. A half that fails ends the step: of Forward everything is undone, of Backward nothing.
  Outcome Forward(const StepCall& call);
  tl::expected<StepReport, Failure> Backward(const StepCall& call);
  // Whether Forward has run and Backward has not.
  bool midway() const { return midway_; }
  // Forgets a step that is midway.
  void Abandon();

  // Runs steps on made-up contents, before state is put into the pool: how long each op of the graph takes where it is,
  // the median of `runs` times. The random state is left alone. `one_thread`: ops run on the calling thread alone,
  // and its own time counts.
  tl::expected<std::vector<Nanos>, Failure> Rehearse(int runs, bool one_thread = false);

 private:
  Engine(TrainingGraph graph, plan::Plan plan, std::shared_ptr<Device> device, OpRunner& runner);
  Status Prepare();

  Nanos Elapsed() const { return Now() - begin_; }
  const sim::Schedule& schedule() const { return now_->schedule; }
  const Itinerary& itinerary() const { return now_->itinerary; }
  Outcome Arrive();
  void LeaveLane();
  void Start();
  Outcome Try(const std::function<Outcome()>& part);
  Outcome Walk(const StepCall& call, Index from, Index to);
  Outcome Finish(const StepCall& call);
  void Enter(const StepCall& call);
  void Leave(const StepCall& call);
  void EndAll();
  Bytes AddressNow(Index storage) const;
  Outcome MoveIn(const StepCall& call);
  Outcome Boundary(Index k, const Visit& visit);
  Outcome RunStep(Index k, const Visit& visit, const StepCall& call);
  Outcome Settle(const Visit& visit, std::vector<Made>& made);
  Status Declare(const Visit& visit);
  Nanos Waited(Nanos from, const Visit& visit);
  Outcome AwaitCopy(Index stay, bool out);
  Result<Ticket> QueueCopy(Index stay, bool out);
  Result<Ticket> Queue(Index stay, bool out);
  Outcome EnterGroup(Index step, bool must);
  Outcome Hold(Bytes address, Bytes bytes);
  Outcome HoldForOp(const Visit& visit);
  void LetGoOfOp(bool all);
  void Begin(Index storage, Bytes address);
  void End(Index storage);
  void Undo();
  Outcome GoHome();
  void Describe();
  std::vector<std::pair<Bytes, Bytes>> FreeRanges(Index step) const;
  std::vector<std::pair<Bytes, Bytes>> Spare(Index step);

  const TrainingGraph graph_;
  const plan::Plan plan_;
  const std::shared_ptr<Device> device_;
  OpRunner& runner_;
  sim::Workload workload_;
  Berth berth_;
  Placed placed_[2];  // from the bottom up, and from the top down, where iterations were last
  const Placed* now_ = &placed_[0];
  StepMemory memory_;
  std::vector<Requests> requests_;  // by op
  std::shared_ptr<HostMemory> host_;
  std::vector<Bytes> swap_slot_;  // by storage: its place in the host's memory; -1: it is never copied out
  std::vector<Bytes> undo_slot_;  // ... of what a step that fails is undone with
  Bytes protect_slot_ = 0;
  std::vector<std::byte> random_;  // states: the one before the step, then one per draw
  // ---- The step that runs
  StepReport report_;
  std::vector<Ticket> tickets_;  // by stay
  std::vector<Index> arriving_;  // by storage: the stay whose copy nobody has waited for; kNone: none
  std::vector<Bytes> at_;        // by storage: its address now; -1: it is not on the device
  std::vector<bool> has_left_;   // by storage: of state, whether it has left its home
  std::vector<bool> new_;        // by storage: was awaited and not used since
  std::vector<Used> accesses_;
  struct Span {
    Nanos begin, end;  // the device's marks
    Nanos* sum;        // of the report: what they are added to
  };
  std::vector<Span> spans_;
  struct Queued {
    Ticket ticket;
    Index stay;
    bool out;
  };
  std::vector<Queued> queued_;
  Nanos begin_ = 0;
  sim::Outcome outcome_;
  std::vector<Made> made_;
  bool update_begun_ = false;
  bool by_thread_ = false;  // step_time is this thread's own time
  Bytes live_ = 0;
  std::size_t undoable_ = 0;         // of the itinerary's undo: those that were saved
  std::vector<std::byte*> outside_;  // by storage: where it lies during a call, if outside the pool
  bool midway_ = false;
  Gate* gate_ = nullptr;
  Bytes granted_ = 0;  // of the lane, from its end
  Index group_ = 0;
  std::vector<std::pair<Bytes, bool>> op_holds_;  // for the op that runs: address, and whether it is kept then
};

}  // namespace ebbtide::run
