// The engine as Python holds it: alone on a pool, or in a harbour beside others.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "_core.h"
#include "run/cuda_device.h"
#include "run/engine.h"
#include "run/failing_device.h"
#include "run/kernels.h"
#include "run/ledger.h"
#include "run/own_random.h"
#include "share/harbour.h"
#include "share/mooring.h"

namespace ebbtide::core {

namespace nb = nanobind;
using run::Index;

// Whether Ctrl-C was pressed. Python's handlers run under the GIL, so it is asked for a few times per second only.
class Signals {
 public:
  bool Interrupted() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + std::chrono::milliseconds(100);
    nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() == 0) return false;
    raised_.emplace();
    return true;
  }
  std::optional<nb::python_error>& raised() { return raised_; }

 private:
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  std::optional<nb::python_error> raised_;
};

struct Pool {
  std::shared_ptr<run::FailingDevice> device;
  std::string name = "cpu";
  std::shared_ptr<run::CudaDevice> gpu;  // null on the CPU
};

// A pool that several engines share.
struct SharedPool {
  Pool pool;
  std::unique_ptr<share::Harbour> harbour;
};

using Places = std::vector<std::pair<Index, std::uintptr_t>>;
using Spans = std::vector<std::tuple<Index, Bytes, std::uintptr_t, Bytes>>;

class Engine {
 public:
  Engine(const std::string& graph, const std::string& plan, const std::string& library, const Pool& pool);
  // Beside others, in a lane; the plan is placed anew, cut into at most `groups` groups. `enough`: a height that does.
  Engine(const std::string& graph, const std::string& plan, const std::string& library,
         std::shared_ptr<SharedPool> shared, Bytes enough, int groups);

  void Attach(Index storage, std::uintptr_t storage_impl);
  bool MoveIn();
  void MoveOut();

  nb::dict Step(std::vector<double> scalars, const Spans& inputs, const Spans& outputs);
  // `outside`: (storage, address) of what lies outside the pool.
  void Forward(const Places& outside);
  nb::dict Backward(const Places& outside);
  void Abandon();
  std::optional<std::vector<Nanos>> Rehearse(int runs, bool one_thread);

  // The last step as `ebbtide plan` shows iterations.
  std::string Trace() const;
  std::string Page() const;

  void SetRequests(std::size_t op, run::Requests requests);
  void FailAt(std::int64_t request) { engine_->memory().FailAt(request); }

  // ---- In a harbour
  Bytes state_bytes() const { return mooring_.state; }
  Bytes height() const { return mooring_.height; }
  std::size_t groups() const { return mooring_.groups.size(); }
  // Memory for its state, and a turn; state is to be moved in then. ValueError: there is no room.
  void Join(const std::string& name, std::int64_t weight, int priority, int lane);
  bool joined() const { return job_.has_value(); }
  // State was moved out.
  void Leave();
  void Stop();
  void Resume();
  // Inside, torch's generators are those of the step: for what else draws for it.
  void EnterRandom();
  void LeaveRandom();
  nb::bytes RandomState();
  void SetRandomState(const nb::bytes& state);

 private:
  void Load(const TrainingGraph& graph, const std::string& library, const std::string& device);
  void Ready();
  void CheckStepTaken() const;
  void CheckStorage(Index storage) const;
  void CheckSpan(Index storage, Bytes offset, Bytes bytes) const;
  void CheckShared() const;
  run::StepCall Half(const Places& outside, Signals& signals) const;

  std::string device_;
  std::unique_ptr<run::Kernels> kernels_;
  std::shared_ptr<SharedPool> shared_;  // null: the pool is the engine's own
  share::Mooring mooring_;
  std::unique_ptr<run::OwnRandom> own_random_;  // after the kernels, which it uses
  std::unique_ptr<run::Engine> engine_;         // after both
  std::optional<share::JobId> job_;
};

}  // namespace ebbtide::core
