// ebbtide._core: the engine. The GIL is released while it runs; signals are looked at now and then.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "_core.h"
#include "graph/json.h"
#include "report/plan_page.h"
#include "report/plan_trace.h"
#include "run/cpu_device.h"
#include "run/cuda_device.h"
#include "run/engine.h"
#include "run/failing_device.h"
#include "run/kernels.h"
#include "run/profile.h"

namespace nb = nanobind;

namespace ebbtide::core {
namespace {

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

Pool MakeCudaPool(Bytes capacity, int ordinal, Bytes pinned_limit) {
  auto gpu = run::MakeCudaDevice({.capacity = capacity, .ordinal = ordinal, .pinned_limit = pinned_limit});
  if (!gpu) {
    PyErr_SetString(PyExc_MemoryError, gpu.error().message.c_str());
    throw nb::python_error();
  }
  return {std::make_shared<run::FailingDevice>(*gpu), fmt::format("cuda:{}", ordinal), *gpu};
}

Pool MakePool(Bytes capacity, double to_device, double to_host, Nanos latency) {
  auto device =
      run::MakeCpuDevice({.capacity = capacity, .to_device = to_device, .to_host = to_host, .latency = latency});
  if (!device) throw std::bad_alloc();
  return {std::make_shared<run::FailingDevice>(*std::move(device)), "cpu", nullptr};
}

using Places = std::vector<std::pair<Index, std::uintptr_t>>;
using Spans = std::vector<std::tuple<Index, Bytes, std::uintptr_t, Bytes>>;

std::vector<run::HostSpan> HostSpans(const Spans& spans) {
  std::vector<run::HostSpan> out;
  for (const auto& [storage, offset, host, bytes] : spans) {
    out.push_back(
        {storage, offset, reinterpret_cast<std::byte*>(host), bytes});  // NOLINT: tensors know their memory by number
  }
  return out;
}

class Engine {
 public:
  Engine(const std::string& graph_text, const std::string& plan_text, const std::string& library, const Pool& pool) {
    Result<TrainingGraph> graph = ParseGraph(graph_text, "graph");
    if (!graph) Raise(graph.error());
    Result<plan::Plan> plan = plan::ParsePlan(plan_text, "plan");
    if (!plan) Raise(plan.error());
    const Result<const EbbtideKernels*> loaded = run::LoadKernels(library);
    if (!loaded) Raise(loaded.error());
    Result<std::unique_ptr<run::Kernels>> kernels = run::Kernels::Make(*loaded, *graph, pool.name);
    if (!kernels) Raise(kernels.error());
    kernels_ = *std::move(kernels);
    device_ = pool.name;
    Result<std::unique_ptr<run::Engine>> engine =
        run::Engine::Make(*std::move(graph), *std::move(plan), pool.device, *kernels_);
    if (!engine) Raise(engine.error());
    engine_ = *std::move(engine);
  }

  void Attach(Index storage, std::uintptr_t storage_impl) {
    CheckStorage(storage);
    const Status attached = kernels_->Attach(storage, reinterpret_cast<void*>(storage_impl));  // NOLINT
    if (!attached) Raise(attached.error());
  }
  bool MoveIn() {
    Ready();
    const Result<int> moved = kernels_->MoveIn(engine_->shared_device(), engine_->home());
    if (!moved) Raise(moved.error());
    return *moved > 0;
  }
  void MoveOut() {
    if (const Status moved = kernels_->MoveOut(engine_->device(), engine_->home()); !moved) Raise(moved.error());
  }

  nb::dict Step(std::vector<double> scalars, const Spans& inputs, const Spans& outputs) {
    if (scalars.size() != engine_->graph().scalars.size()) Raise({"scalars: expected as many as the graph has"});
    for (const Spans& spans : {inputs, outputs}) {
      for (const auto& span : spans) CheckSpan(std::get<0>(span), std::get<1>(span), std::get<3>(span));
    }
    Ready();
    Signals signals;
    const run::StepCall call{
        .scalars = std::move(scalars), .inputs = HostSpans(inputs), .outputs = HostSpans(outputs), .interrupted = [&] {
          return signals.Interrupted();
        }};
    const auto report = [&] {
      nb::gil_scoped_release release;
      return engine_->Step(call);
    }();
    if (!report) RaiseFailure(report.error(), signals);
    return Fields(*report);
  }

  // `outside`: (storage, address) of what lies outside the pool.
  void Forward(const Places& outside) {
    Signals signals;
    const run::StepCall call = Half(outside, signals);
    const auto done = [&] {
      nb::gil_scoped_release release;
      return engine_->Forward(call);
    }();
    if (!done) RaiseFailure(done.error(), signals);
  }
  nb::dict Backward(const Places& outside) {
    Signals signals;
    const run::StepCall call = Half(outside, signals);
    const auto report = [&] {
      nb::gil_scoped_release release;
      return engine_->Backward(call);
    }();
    if (!report) RaiseFailure(report.error(), signals);
    return Fields(*report);
  }
  bool Midway() const { return engine_->midway(); }
  void Abandon() {
    nb::gil_scoped_release release;
    engine_->Abandon();
  }

  std::optional<std::vector<Nanos>> Rehearse(int runs, bool one_thread) {
    Ready();
    const auto times = [&] {
      nb::gil_scoped_release release;
      return engine_->Rehearse(runs, one_thread);
    }();
    if (!times) return std::nullopt;
    return *times;
  }

  // The last step as `ebbtide plan` shows iterations.
  std::string Trace() const {
    CheckStepTaken();
    return report::PlanTrace(engine_->graph(), engine_->workload(), engine_->plan().schedule, engine_->outcome());
  }
  std::string Page() const {
    CheckStepTaken();
    report::PlanResult shown;
    shown.model = engine_->graph().name + ", measured";
    shown.policy = engine_->plan().policy;
    shown.gpu = device_ == "cpu" ? "this machine's CPU" : device_;
    shown.budget = engine_->device().capacity();
    shown.graph = &engine_->graph();
    shown.workload = &engine_->workload();
    shown.planned.plan = engine_->plan();
    shown.planned.plan->time = engine_->outcome().time;
    shown.planned.outcome = engine_->outcome();
    shown.plain_time = engine_->plan().plain_time;
    shown.plain_peak = engine_->plan().plain_peak;
    shown.minimum.found = engine_->plan().peak;
    return report::PlanPage(shown);
  }

  void SetRequests(std::size_t op, run::Requests requests) {
    if (op >= engine_->requests().size()) Raise({fmt::format("the graph has no op {}", op)});
    const auto births = static_cast<std::int32_t>(engine_->graph().op(OpId(op)).outputs.size());
    for (std::int32_t& birth : requests) birth = birth < births ? birth : -1;
    engine_->requests()[op] = std::move(requests);
  }
  void FailAt(std::int64_t request) { engine_->memory().FailAt(request); }

 private:
  void Ready() {
    if (const Status ready = kernels_->Ready(engine_->device()); !ready) Raise(ready.error());
  }
  void CheckStepTaken() const {
    if (engine_->outcome().time == 0) Raise({"no step has been taken yet"});
  }
  void CheckStorage(Index storage) const {
    if (storage >= engine_->graph().storages.size()) Raise({fmt::format("the graph has no storage {}", storage)});
  }
  void CheckSpan(Index storage, Bytes offset, Bytes bytes) const {
    CheckStorage(storage);
    const Bytes size = engine_->graph().storages[storage].bytes;
    if (offset < 0 || bytes < 0 || bytes > size || offset > size - bytes)
      Raise({fmt::format("storage {}: expected a part of its {} bytes", storage, size)});
  }
  run::StepCall Half(const Places& outside, Signals& signals) const {
    run::StepCall call{.interrupted = [&signals] { return signals.Interrupted(); }};
    for (const auto& [storage, address] : outside) {
      CheckStorage(storage);
      if (!engine_->graph().storages[storage].outside)
        Raise({fmt::format("storage {}: expected one that lies outside the pool", storage)});
      call.outside.emplace_back(storage, reinterpret_cast<std::byte*>(address));  // NOLINT
    }
    return call;
  }
  [[noreturn]] static void RaiseFailure(const run::Failure& failure, Signals& signals) {
    if (signals.raised()) throw *std::move(signals.raised());
    PyErr_SetString(failure.kind == run::Failure::Kind::kOutOfMemory ? PyExc_MemoryError : PyExc_RuntimeError,
                    failure.message.c_str());
    throw nb::python_error();
  }
  static nb::dict Fields(const run::StepReport& report) {
    nb::dict out;
    out["time_ns"] = report.time;
    out["recompute_ns"] = report.recompute;
    out["wait_for_memory_ns"] = report.wait_for_memory;
    out["wait_for_data_ns"] = report.wait_for_data;
    out["drain_ns"] = report.drain;
    out["moving_in_ns"] = report.moving_in;
    out["peak_bytes"] = report.peak;
    out["live_peak_bytes"] = report.live_peak;
    out["copied_out_bytes"] = report.copied_out;
    out["copied_in_bytes"] = report.copied_in;
    out["beyond_plan_bytes"] = report.beyond_plan;
    out["relocated"] = report.relocated;
    out["step_time_ns"] = nb::cast(report.step_time);
    return out;
  }

  std::string device_;
  std::unique_ptr<run::Kernels> kernels_;
  std::unique_ptr<run::Engine> engine_;  // after the kernels, which it uses
};

class Profiler {
 public:
  // Without a pool, on the CPU in memory of its own.
  Profiler(const std::string& graph_text, const std::string& library, const Pool* pool) {
    Result<TrainingGraph> graph = ParseGraph(graph_text, "graph");
    if (!graph) Raise(graph.error());
    ops_ = graph->ops.size();
    const Result<const EbbtideKernels*> loaded = run::LoadKernels(library);
    if (!loaded) Raise(loaded.error());
    Result<std::unique_ptr<run::Profiler>> profiler =
        pool ? run::Profiler::Make(*loaded, *std::move(graph), pool->device, pool->name)
             : run::Profiler::Make(*loaded, *std::move(graph));
    if (!profiler) Raise(profiler.error());
    profiler_ = *std::move(profiler);
  }

  std::optional<nb::dict> Profile(std::size_t op, int runs, bool one_thread) {
    if (op >= ops_) Raise({fmt::format("the graph has no op {}", op)});
    const auto profile = [&] {
      nb::gil_scoped_release release;
      return profiler_->Profile(OpId(op), {.runs = std::max(runs, 1), .one_thread = one_thread});
    }();
    if (!profile) return std::nullopt;
    nb::dict out;
    out["time_ns"] = profile->time;
    out["workspace_bytes"] = profile->workspace;
    out["requests"] = nb::cast(profile->requests);
    out["made_bytes"] = nb::cast(profile->made);
    return out;
  }

 private:
  std::size_t ops_ = 0;
  std::unique_ptr<run::Profiler> profiler_;
};

}  // namespace

void AddRun(nb::module_& module) {
  nb::class_<Pool>(module, "Pool",
                   "Memory of the CPU that stands for a device's, and threads that copy to it and from it.")
      .def(nb::new_(&MakePool), nb::arg("capacity"), nb::arg("to_device") = 0.0, nb::arg("to_host") = 0.0,
           nb::arg("latency") = 0)
      .def_static("cuda", &MakeCudaPool, nb::arg("capacity"), nb::arg("ordinal") = 0, nb::arg("pinned_limit") = -1,
                  "Memory of a GPU. See src/run/cuda_device.h.")
      .def_ro("device", &Pool::name, "As torch calls it.")
      .def_prop_ro("pinned", [](const Pool& pool) { return pool.gpu ? pool.gpu->pinned() : 0; })
      .def_prop_ro("waits", [](const Pool& pool) { return pool.gpu ? pool.gpu->waits() : 0; })
      .def(
          "skip_wait",
          [](const Pool& pool, std::int64_t n) {
            if (pool.gpu) pool.gpu->SkipWait(n);
          },
          nb::arg("n"), "Leaves out the n-th wait of a stream for another from now on, for tests.")
      .def_prop_ro("capacity", [](const Pool& pool) { return pool.device->capacity(); })
      .def(
          "fail_at", [](const Pool& pool, std::int64_t call) { pool.device->FailAt(call); }, nb::arg("call"),
          "Has the n-th copy or access from now fail, for tests.");
  nb::class_<Engine>(module, "Engine", "Executes a plan for a captured graph. See src/run/engine.h.")
      .def(nb::init<const std::string&, const std::string&, const std::string&, const Pool&>(), nb::arg("graph"),
           nb::arg("plan"), nb::arg("library"), nb::arg("pool"))
      .def("attach", &Engine::Attach, nb::arg("storage"), nb::arg("storage_impl"),
           "The user's storage for one of the graph's.")
      .def("move_in", &Engine::MoveIn,
           "What was attached goes to its place in the pool, unless it is there. Whether any was not.")
      .def("move_out", &Engine::MoveOut, "What is in the pool goes back to memory of torch's own.")
      .def("step", &Engine::Step, nb::arg("scalars"), nb::arg("inputs"), nb::arg("outputs"),
           "One step. Inputs and outputs: (storage, offset, address on the host, bytes). MemoryError, RuntimeError or "
           "what a "
           "signal raised: nothing has changed.")
      .def("forward", &Engine::Forward, nb::arg("outside"),
           "The first half of a step. Outside: (storage, address) of what is not in the pool. An error: nothing of "
           "the pool and the random state has changed.")
      .def("backward", &Engine::Backward, nb::arg("outside"), "The second half.")
      .def_prop_ro("midway", &Engine::Midway, "Whether the first half has run and the second has not.")
      .def("abandon", &Engine::Abandon, "Forgets a step that is midway.")
      .def("rehearse", &Engine::Rehearse, nb::arg("runs"), nb::arg("one_thread"),
           "Runs the step on made-up state, before any is attached: the time of each op. None: an op refuses it.")
      .def("trace", &Engine::Trace, "The last step's timeline, for Perfetto.")
      .def("page", &Engine::Page, "The last step as a page.")
      .def("set_requests", &Engine::SetRequests, nb::arg("op"), nb::arg("requests"),
           "What Profiler.profile gave for the op.")
      .def("fail_at", &Engine::FailAt, nb::arg("request"), "Has the n-th request for memory from now fail, for tests.");
  nb::class_<Profiler>(module, "Profiler",
                       "Measures single ops of a captured graph on made-up data. See src/run/profile.h.")
      .def(nb::init<const std::string&, const std::string&, const Pool*>(), nb::arg("graph"), nb::arg("library"),
           nb::arg("pool") = nb::none())
      .def("profile", &Profiler::Profile, nb::arg("op"), nb::arg("runs"), nb::arg("one_thread"),
           "Fields of a dict; None: the op refuses made-up data.");
}

}  // namespace ebbtide::core
