// Calls run::Engine and share::PoolScheduler without the interpreter's lock, and turns what they report into Python's
// dicts and errors.
#include "engine.h"

#include <nanobind/stl/pair.h>

#include "report/json/plan_trace.h"
#include "report/page/plan_page.h"

namespace ebbtide::core {
namespace {

std::vector<run::HostSpan> HostSpans(const Spans& spans) {
  std::vector<run::HostSpan> out;
  for (const auto& [storage, offset, host, bytes] : spans) {
    std::byte* const at = reinterpret_cast<std::byte*>(host);  // NOLINT: tensors know their memory by number
    out.push_back({StorageId(storage), offset, at, bytes});
  }
  return out;
}

[[noreturn]] void RaiseFailure(const run::Failure& failure, Signals& signals, run::Engine& engine) {
  if (failure.kind == run::Failure::Kind::kKept) {
    [[maybe_unused]] static auto* const kept = new std::vector<std::shared_ptr<run::Device>>;  // for good
    kept->push_back(engine.shared_device());
  }
  if (signals.raised()) throw *std::move(signals.raised());
  const auto kind = failure.kind;
  PyErr_SetString(kind == run::Failure::Kind::kOutOfMemory   ? PyExc_MemoryError
                  : kind == run::Failure::Kind::kInterrupted ? PyExc_InterruptedError
                                                             : PyExc_RuntimeError,
                  failure.message.c_str());
  throw nb::python_error();
}

nb::dict Fields(const run::StepReport& report) {
  nb::dict out;
  out["time_ns"] = report.time;
  out["recompute_ns"] = report.recompute;
  out["wait_for_memory_ns"] = report.wait_for_memory;
  out["wait_for_data_ns"] = report.wait_for_data;
  out["drain_ns"] = report.drain;
  out["moving_in_ns"] = report.moving_in;
  out["wait_for_turn_ns"] = report.wait_for_turn;
  out["peak_bytes"] = report.peak;
  out["live_peak_bytes"] = report.live_peak;
  out["copied_out_bytes"] = report.copied_out;
  out["copied_in_bytes"] = report.copied_in;
  out["beyond_plan_bytes"] = report.beyond_plan;
  out["relocated"] = report.relocated;
  out["graphs"] = report.graphs;
  out["graph_ops"] = report.graph_ops;
  out["step_time_ns"] = nb::cast(report.step_time.values());
  if (!report.groups.empty()) out["groups_ns"] = nb::cast(report.groups);
  return out;
}

}  // namespace

void Engine::Load(const TrainingGraph& graph, const std::string& library, const std::string& device) {
  const Result<const EbbtideKernels*> loaded = run::LoadKernels(library);
  if (!loaded) Raise(loaded.error());
  Result<std::unique_ptr<run::Kernels>> kernels = run::Kernels::Make(*loaded, graph, device);
  if (!kernels) Raise(kernels.error());
  kernels_ = *std::move(kernels);
  device_ = device;
}

Engine::Engine(const Graph& graph, const Plan& plan, const std::string& library, const Pool& pool) {
  Load(*graph.value, library, pool.name);
  Result<std::unique_ptr<run::Engine>> engine = run::Engine::Make(*graph.value, *plan.value, pool.device, *kernels_);
  if (!engine) Raise(engine.error());
  engine_ = *std::move(engine);
}

Engine::Engine(const Graph& graph, const Plan& plan, const std::string& library, std::shared_ptr<SharedPool> shared,
               Bytes height_limit, int groups)
    : shared_(std::move(shared)) {
  Load(*graph.value, library, shared_->pool.name);
  Result<share::SharedStep> step =
      share::MakeSharedStep(*graph.value, *plan.value, {.height_limit = height_limit, .cut = {.groups = groups}});
  if (!step) Raise(step.error());
  shared_step_ = *std::move(step);
  {
    nb::gil_scoped_release release;  // who holds the generator may want the interpreter
    own_random_ = std::make_unique<run::OwnRandom>(*kernels_, *graph.value);
  }
  Result<std::shared_ptr<run::Device>> device = shared_->pool.device->Beside();
  if (!device) Raise(device.error());
  Result<std::unique_ptr<run::Engine>> engine =
      run::Engine::Make(*graph.value, shared_step_.plan, *device, *own_random_);
  if (!engine) Raise(engine.error());
  engine_ = *std::move(engine);
}

void Engine::Attach(Number storage, std::uintptr_t storage_impl) {
  const Status attached = kernels_->Attach(CheckedStorage(storage), reinterpret_cast<void*>(storage_impl));  // NOLINT
  if (!attached) Raise(attached.error());
}

bool Engine::MoveIn() {
  Ready();
  const Result<int> moved = kernels_->MoveIn(engine_->shared_device(), engine_->home());
  if (!moved) Raise(moved.error());
  return *moved > 0;
}

void Engine::MoveOut() {
  if (const Status moved = kernels_->MoveOut(engine_->device(), engine_->home()); !moved) Raise(moved.error());
}

nb::dict Engine::Step(std::vector<double> scalars, const Spans& inputs, const Spans& outputs) {
  if (scalars.size() != engine_->graph().scalars.size()) Raise({"scalars: expected as many as the graph has"});
  for (const Spans& spans : {inputs, outputs}) {
    for (const auto& span : spans) CheckSpan(std::get<0>(span), std::get<1>(span), std::get<3>(span));
  }
  Ready();
  Signals signals;
  run::StepCall call{.scalars = std::move(scalars), .inputs = HostSpans(inputs), .outputs = HostSpans(outputs)};
  if (shared_) {
    if (!job_) Raise({"the step has not joined the others"});
    call.turns = &shared_->scheduler->TurnsOf(*job_);
    call.interrupted = [this] { return shared_->scheduler->stopped(*job_); };
  } else {
    call.interrupted = [&] { return signals.Interrupted(); };
  }
  const auto report = [&] {
    nb::gil_scoped_release release;
    return engine_->Step(call);
  }();
  if (!report) RaiseFailure(report.error(), signals, *engine_);
  return Fields(*report);
}

void Engine::Forward(const Places& outside) {
  Signals signals;
  const run::StepCall call = Half(outside, signals);
  const auto done = [&] {
    nb::gil_scoped_release release;
    return engine_->Forward(call);
  }();
  if (!done) RaiseFailure(done.error(), signals, *engine_);
}

nb::dict Engine::Backward(const Places& outside) {
  Signals signals;
  const run::StepCall call = Half(outside, signals);
  const auto report = [&] {
    nb::gil_scoped_release release;
    return engine_->Backward(call);
  }();
  if (!report) RaiseFailure(report.error(), signals, *engine_);
  return Fields(*report);
}

void Engine::Abandon() {
  if (getpid() != process_) return;  // nothing of it is under way here
  nb::gil_scoped_release release;
  engine_->Abandon();
}

std::optional<std::vector<Nanos>> Engine::MeasureOps(int runs, bool one_thread) {
  Ready();
  Signals signals;
  const auto times = [&] {
    nb::gil_scoped_release release;
    return engine_->MeasureOps(
        {.runs = runs, .one_thread = one_thread, .interrupted = [&] { return signals.Interrupted(); }});
  }();
  if (signals.raised()) throw *std::move(signals.raised());
  if (!times) return std::nullopt;
  return times->values();
}

std::string Engine::Trace() const {
  CheckStepTaken();
  return report::PlanTrace(engine_->graph(), engine_->workload(), engine_->plan().schedule, engine_->outcome());
}

std::string Engine::Page() const {
  CheckStepTaken();
  // The engine outlives the page: nothing is copied.
  const auto borrowed = []<class T>(const T& value) {
    return std::shared_ptr<const T>(std::shared_ptr<void>(), &value);
  };
  jobs::PlanResult shown;
  shown.model = engine_->graph().name + ", measured";
  shown.policy = engine_->plan().policy;
  shown.gpu = device_ == "cpu" ? "this machine's CPU" : device_;
  shown.budget = engine_->device().capacity();
  shown.graph = borrowed(engine_->graph());
  shown.workload = borrowed(engine_->workload());
  shown.planned.plan = engine_->plan();
  shown.planned.plan->time = engine_->outcome().time;
  shown.planned.outcome = engine_->outcome();
  shown.summary = plan::Summarize(engine_->workload(), engine_->plan().schedule, engine_->outcome());
  shown.plain_time = engine_->plan().plain_time;
  shown.plain_peak = engine_->plan().plain_peak;
  shown.minimum.found = engine_->plan().peak;
  return report::PlanPage(shown);
}

void Engine::SetRequests(std::size_t op, run::Requests requests) {
  if (op >= engine_->requests().size()) Raise({fmt::format("the graph has no op {}", op)});
  const auto births = static_cast<std::int32_t>(engine_->graph().op(OpId(op)).outputs.size());
  for (std::int32_t& birth : requests) birth = birth < births ? birth : -1;
  engine_->requests()[OpId(op)] = std::move(requests);
}

void Engine::CaptureOps(const std::vector<bool>& capturable) {
  if (capturable.size() != engine_->graph().ops.size()) Raise({"capture_ops: expected as many as the graph has ops"});
  IdVector<OpId, bool> by_op;
  for (const bool can : capturable) by_op.push_back(can);
  engine_->SetCapturable(by_op);
}

void Engine::CheckProcess() const {
  if (getpid() == process_) return;
  Raise(
      {"the engine was made in another process, whose threads a fork does not copy; expected one made in this process",
       ErrorKind::kUnavailable});
}

void Engine::Ready() {
  CheckProcess();
  if (const Status ready = kernels_->Ready(engine_->device()); !ready) Raise(ready.error());
}

void Engine::CheckStepTaken() const {
  if (engine_->outcome().time == 0) Raise({"no step has been taken yet"});
}

StorageId Engine::CheckedStorage(Number storage) const {
  if (storage >= engine_->graph().storages.size()) Raise({fmt::format("the graph has no storage {}", storage)});
  return StorageId(storage);
}

void Engine::CheckSpan(Number storage, Bytes offset, Bytes bytes) const {
  const Bytes size = engine_->graph().storage(CheckedStorage(storage)).bytes;
  if (offset < 0 || bytes < 0 || bytes > size || offset > size - bytes)
    Raise({fmt::format("storage {}: expected a part of its {} bytes", storage, size)});
}

run::StepCall Engine::Half(const Places& outside, Signals& signals) const {
  CheckProcess();
  run::StepCall call{.interrupted = [&signals] { return signals.Interrupted(); }};
  for (const auto& [storage, address] : outside) {
    const StorageId id = CheckedStorage(storage);
    if (!engine_->graph().storage(id).outside)
      Raise({fmt::format("storage {}: expected one that lies outside the pool", storage)});
    call.outside.emplace_back(id, reinterpret_cast<std::byte*>(address));  // NOLINT
  }
  return call;
}

void Engine::CheckShared() const {
  if (!shared_) Raise({"the engine is alone on its pool"});
}

void Engine::Join(const std::string& name, std::int64_t weight, int priority, int lane) {
  CheckShared();
  CheckProcess();
  if (job_) Raise({"the step is among the others already"});
  share::JobShape shape = shared_step_.shape;
  shape.name = name;
  shape.weight = weight;
  shape.priority = priority;
  shape.lane = lane;
  const Result<share::JobId> job = [&] {
    nb::gil_scoped_release release;
    return shared_->scheduler->Join(shape);
  }();
  if (!job) Raise(job.error());
  run::StepRegion region = shared_step_.region();
  region.state = shared_->scheduler->StateAddress(*job);
  Status placed = engine_->device().Hold(region.state, shared_step_.state);
  if (placed) placed = engine_->PlaceIn(std::move(region));
  if (!placed) {
    engine_->device().LetGo(shared_->scheduler->StateAddress(*job));
    shared_->scheduler->Leave(*job);
    Raise(placed.error());
  }
  job_ = *job;
}

void Engine::Leave() {
  if (!job_) return;
  CheckProcess();
  {
    nb::gil_scoped_release release;
    engine_->device().Drain();
  }
  engine_->device().LetGo(engine_->region().state);
  shared_->scheduler->Leave(*job_);
  job_.reset();
}

void Engine::Stop() {
  CheckShared();
  if (job_) shared_->scheduler->Stop(*job_);
}

void Engine::Resume() {
  CheckShared();
  if (job_) shared_->scheduler->Resume(*job_);
}

void Engine::Rest() {
  CheckShared();
  if (job_) shared_->scheduler->Rest(*job_);
}

void Engine::EnterRandom() {
  CheckShared();
  nb::gil_scoped_release release;
  own_random_->Enter();
}

void Engine::LeaveRandom() {
  CheckShared();
  own_random_->Leave();
}

nb::bytes Engine::RandomState() {
  CheckShared();
  std::vector<std::byte> state(own_random_->RandomBytes());
  own_random_->SaveRandom(state.data());
  return nb::bytes(state.data(), state.size());
}

void Engine::SetRandomState(const nb::bytes& state) {
  CheckShared();
  if (state.size() != own_random_->RandomBytes())
    Raise({fmt::format("a random state of {} bytes; expected {}", state.size(), own_random_->RandomBytes())});
  own_random_->LoadRandom(static_cast<const std::byte*>(state.data()));
}

}  // namespace ebbtide::core
