// The engine as Python holds it: alone on a pool, or in a pool beside others.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "module.h"
#include "run/device/cuda_device.h"
#include "run/device/failing_device.h"
#include "run/device/pool_holdings.h"
#include "run/engine/engine.h"
#include "run/engine/kernels.h"
#include "run/engine/own_random.h"
#include "share/scheduler/pool_scheduler.h"
#include "share/scheduler/shared_step.h"
#include "signals.h"
#include "values.h"

namespace ebbtide::core {

namespace nb = nanobind;
using Number = std::uint32_t;  // of a storage, as Python has it

// Memory that engines run in, and its name as torch has it.
struct Pool {
  std::shared_ptr<run::FailingDevice> device;
  std::string name = "cpu";
  std::shared_ptr<run::CudaDevice> gpu;  // null on the CPU
};

// A pool that several engines share, and who decides when each of their groups runs.
struct SharedPool {
  Pool pool;
  std::unique_ptr<share::PoolScheduler> scheduler;
};

using Places = std::vector<std::pair<Number, std::uintptr_t>>;
using Spans = std::vector<std::tuple<Number, Bytes, std::uintptr_t, Bytes>>;

// The functions' contracts are their docstrings in run.cc. Errors are raised as Python's; one thread at a time, but for
// Stop.
class Engine {
 public:
  Engine(const Graph& graph, const Plan& plan, const std::string& library, const Pool& pool);
  // Beside others, in a lane; the plan is placed anew, cut into at most `groups` groups. `height_limit`: as the
  // arranger gives it.
  Engine(const Graph& graph, const Plan& plan, const std::string& library, std::shared_ptr<SharedPool> shared,
         Bytes height_limit, int groups);

  void Attach(Number storage, std::uintptr_t storage_impl);
  bool MoveIn();
  void MoveOut();

  nb::dict Step(std::vector<double> scalars, const Spans& inputs, const Spans& outputs);
  // `outside`: (storage, address) of what lies outside of the pool, in memory of the user's own.
  void Forward(const Places& outside);
  nb::dict Backward(const Places& outside);
  void Abandon();
  std::optional<std::vector<Nanos>> MeasureOps(int runs, bool one_thread);

  // The last step as a trace and as a page of `ebbtide plan`.
  std::string Trace() const;
  std::string Page() const;

  void SetRequests(std::size_t op, run::Requests requests);
  void CaptureOps(const std::vector<bool>& capturable);
  void FailAt(std::int64_t request) { engine_->memory().FailAt(request); }

  // ---- In a shared pool
  Bytes state_bytes() const { return shared_step_.state; }
  Bytes height() const { return shared_step_.height; }
  std::size_t groups() const { return shared_step_.groups.size(); }
  // Takes memory for the state, which is to be moved in then, and part in the scheduling. ValueError where there is no
  // room.
  void Join(const std::string& name, std::int64_t weight, int priority, int lane);
  bool joined() const { return job_.has_value(); }
  // Gives it back. The state was moved out before.
  void Leave();
  void Stop();
  void Resume();
  // It takes no further step for now: its turn goes to others at once.
  void Rest();
  // Between the two, torch's generators are those of the step, for whatever else draws numbers for it.
  void EnterRandom();
  void LeaveRandom();
  nb::bytes RandomState();
  void SetRandomState(const nb::bytes& state);

 private:
  // Raises in a child by fork, where the threads that copy are not.
  void CheckProcess() const;
  void Load(const TrainingGraph& graph, const std::string& library, const std::string& device);
  void Ready();
  void CheckStepTaken() const;
  // Raises where the graph has no such storage.
  StorageId CheckedStorage(Number storage) const;
  void CheckSpan(Number storage, Bytes offset, Bytes bytes) const;
  void CheckShared() const;
  run::StepCall Half(const Places& outside, Signals& signals) const;

  const pid_t process_ = getpid();
  std::string device_;
  std::unique_ptr<run::Kernels> kernels_;
  std::shared_ptr<SharedPool> shared_;  // null: the pool is the engine's own
  share::SharedStep shared_step_;
  std::unique_ptr<run::OwnRandom> own_random_;  // after the kernels, which it uses
  std::unique_ptr<run::Engine> engine_;         // after both
  std::optional<share::JobId> job_;
};

}  // namespace ebbtide::core
