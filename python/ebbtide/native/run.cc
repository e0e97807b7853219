// ebbtide.native: the engine. The GIL is released while it runs; signals are looked at now and then.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine.h"
#include "run/device/cpu_device.h"
#include "run/engine/profile.h"

namespace ebbtide::core {
namespace {

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

class Profiler {
 public:
  // Without a pool, on the CPU in memory of its own.
  Profiler(const Graph& graph, const std::string& library, const Pool* pool) {
    ops_ = graph.value->ops.size();
    const Result<const EbbtideKernels*> loaded = run::LoadKernels(library);
    if (!loaded) Raise(loaded.error());
    Result<std::unique_ptr<run::Profiler>> profiler =
        pool ? run::Profiler::Make(*loaded, *graph.value, pool->device, pool->name)
             : run::Profiler::Make(*loaded, *graph.value);
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
                  "Memory of a GPU. See src/run/device/cuda_device.h.")
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
  nb::class_<Engine>(module, "Engine", "Executes a plan for a captured graph. See src/run/engine/engine.h.")
      .def(nb::init<const Graph&, const Plan&, const std::string&, const Pool&>(), nb::arg("graph"), nb::arg("plan"),
           nb::arg("library"), nb::arg("pool"))
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
      .def("abandon", &Engine::Abandon, "Forgets a step that is midway.")
      .def("measure_ops", &Engine::MeasureOps, nb::arg("runs"), nb::arg("one_thread"),
           "Runs the step on made-up state, before any is attached: the time of each op. None: an op refuses it.")
      .def("trace", &Engine::Trace, "The last step's timeline, for Perfetto.")
      .def("page", &Engine::Page, "The last step as a page.")
      .def("set_requests", &Engine::SetRequests, nb::arg("op"), nb::arg("requests"),
           "What Profiler.profile gave for the op.")
      .def("capture_ops", &Engine::CaptureOps, nb::arg("capturable"),
           "Whether each op may become part of a CUDA graph, from now on. See src/run/engine/captured_runs.h.")
      .def("fail_at", &Engine::FailAt, nb::arg("request"), "Has the n-th request for memory from now fail, for tests.")
      .def(nb::init<const Graph&, const Plan&, const std::string&, std::shared_ptr<SharedPool>, Bytes, int>(),
           nb::arg("graph"), nb::arg("plan"), nb::arg("library"), nb::arg("shared"), nb::arg("height_limit"),
           nb::arg("groups") = 16, "Beside others. `height_limit`: as SharedArranger gives it.")
      .def_prop_ro("state_bytes", &Engine::state_bytes)
      .def_prop_ro("height", &Engine::height, "Of all else, in a lane.")
      .def_prop_ro("groups", &Engine::groups)
      .def("join", &Engine::Join, nb::arg("name"), nb::arg("weight"), nb::arg("priority"), nb::arg("lane"),
           "Takes memory for the state, which is to be moved in then. ValueError: there is none.")
      .def_prop_ro("joined", &Engine::joined)
      .def("leave", &Engine::Leave, "Gives it back; the state was moved out.")
      .def("stop", &Engine::Stop, "Has the step that runs, and those to come, raise InterruptedError; from any thread.")
      .def("resume", &Engine::Resume, "After stop: steps are taken again.")
      .def("rest", &Engine::Rest, "No further step is taken for now: the turn goes to others at once.")
      .def("enter_random", &Engine::EnterRandom, "Until leave_random torch's generators are those of the step.")
      .def("leave_random", &Engine::LeaveRandom)
      .def_prop_rw("random_state", &Engine::RandomState, &Engine::SetRandomState);
  nb::class_<Profiler>(module, "Profiler",
                       "Measures single ops of a captured graph on made-up data. See src/run/engine/profile.h.")
      .def(nb::init<const Graph&, const std::string&, const Pool*>(), nb::arg("graph"), nb::arg("library"),
           nb::arg("pool") = nb::none())
      .def("profile", &Profiler::Profile, nb::arg("op"), nb::arg("runs"), nb::arg("one_thread"),
           "Fields of a dict; None: the op refuses made-up data.");
  module.def(
      "hold_generator", &run::HoldGenerator, nb::call_guard<nb::gil_scoped_release>(),
      "Until release_generator, which the same thread calls, no step of another draws random numbers. May be nested.");
  module.def("release_generator", &run::ReleaseGenerator);
}

}  // namespace ebbtide::core
