#include "_core_engine.h"

#include <nanobind/stl/pair.h>

#include "graph/json.h"
#include "report/plan_page.h"
#include "report/plan_trace.h"

namespace ebbtide::core {
namespace {

std::vector<run::HostSpan> HostSpans(const Spans& spans) {
  std::vector<run::HostSpan> out;
  for (const auto& [storage, offset, host, bytes] : spans) {
    out.push_back(
        {storage, offset, reinterpret_cast<std::byte*>(host), bytes});  // NOLINT: tensors know their memory by number
  }
  return out;
}

[[noreturn]] void RaiseFailure(const run::Failure& failure, Signals& signals) {
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
  out["step_time_ns"] = nb::cast(report.step_time);
  if (!report.groups.empty()) out["groups_ns"] = nb::cast(report.groups);
  return out;
}

TrainingGraph GraphOf(const std::string& text) {
  Result<TrainingGraph> graph = ParseGraph(text, "graph");
  if (!graph) Raise(graph.error());
  return *std::move(graph);
}

plan::Plan PlanOf(const std::string& text) {
  Result<plan::Plan> plan = plan::ParsePlan(text, "plan");
  if (!plan) Raise(plan.error());
  return *std::move(plan);
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

Engine::Engine(const std::string& graph_text, const std::string& plan_text, const std::string& library,
               const Pool& pool) {
  TrainingGraph graph = GraphOf(graph_text);
  Load(graph, library, pool.name);
  Result<std::unique_ptr<run::Engine>> engine =
      run::Engine::Make(std::move(graph), PlanOf(plan_text), pool.device, *kernels_);
  if (!engine) Raise(engine.error());
  engine_ = *std::move(engine);
}

Engine::Engine(const std::string& graph_text, const std::string& plan_text, const std::string& library,
               std::shared_ptr<SharedPool> shared, Bytes enough, int groups)
    : shared_(std::move(shared)) {
  TrainingGraph graph = GraphOf(graph_text);
  Load(graph, library, shared_->pool.name);
  Result<share::Mooring> mooring =
      share::MakeMooring(graph, PlanOf(plan_text), {.enough = enough, .cut = {.groups = groups}});
  if (!mooring) Raise(mooring.error());
  mooring_ = *std::move(mooring);
  {
    nb::gil_scoped_release release;  // who holds the generator may want the interpreter
    own_random_ = std::make_unique<run::OwnRandom>(*kernels_, graph);
  }
  Result<std::shared_ptr<run::Device>> device = shared_->pool.device->Beside();
  if (!device) Raise(device.error());
  Result<std::unique_ptr<run::Engine>> engine =
      run::Engine::Make(std::move(graph), mooring_.plan, *device, *own_random_);
  if (!engine) Raise(engine.error());
  engine_ = *std::move(engine);
}

void Engine::Attach(Index storage, std::uintptr_t storage_impl) {
  CheckStorage(storage);
  const Status attached = kernels_->Attach(storage, reinterpret_cast<void*>(storage_impl));  // NOLINT
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
    call.gate = &shared_->harbour->GateOf(*job_);
    call.interrupted = [this] { return shared_->harbour->stopped(*job_); };
  } else {
    call.interrupted = [&] { return signals.Interrupted(); };
  }
  const auto report = [&] {
    nb::gil_scoped_release release;
    return engine_->Step(call);
  }();
  if (!report) RaiseFailure(report.error(), signals);
  return Fields(*report);
}

void Engine::Forward(const Places& outside) {
  Signals signals;
  const run::StepCall call = Half(outside, signals);
  const auto done = [&] {
    nb::gil_scoped_release release;
    return engine_->Forward(call);
  }();
  if (!done) RaiseFailure(done.error(), signals);
}

nb::dict Engine::Backward(const Places& outside) {
  Signals signals;
  const run::StepCall call = Half(outside, signals);
  const auto report = [&] {
    nb::gil_scoped_release release;
    return engine_->Backward(call);
  }();
  if (!report) RaiseFailure(report.error(), signals);
  return Fields(*report);
}

void Engine::Abandon() {
  nb::gil_scoped_release release;
  engine_->Abandon();
}

std::optional<std::vector<Nanos>> Engine::Rehearse(int runs, bool one_thread) {
  Ready();
  const auto times = [&] {
    nb::gil_scoped_release release;
    return engine_->Rehearse(runs, one_thread);
  }();
  if (!times) return std::nullopt;
  return *times;
}

std::string Engine::Trace() const {
  CheckStepTaken();
  return report::PlanTrace(engine_->graph(), engine_->workload(), engine_->plan().schedule, engine_->outcome());
}

std::string Engine::Page() const {
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

void Engine::SetRequests(std::size_t op, run::Requests requests) {
  if (op >= engine_->requests().size()) Raise({fmt::format("the graph has no op {}", op)});
  const auto births = static_cast<std::int32_t>(engine_->graph().op(OpId(op)).outputs.size());
  for (std::int32_t& birth : requests) birth = birth < births ? birth : -1;
  engine_->requests()[op] = std::move(requests);
}

void Engine::Ready() {
  if (const Status ready = kernels_->Ready(engine_->device()); !ready) Raise(ready.error());
}

void Engine::CheckStepTaken() const {
  if (engine_->outcome().time == 0) Raise({"no step has been taken yet"});
}

void Engine::CheckStorage(Index storage) const {
  if (storage >= engine_->graph().storages.size()) Raise({fmt::format("the graph has no storage {}", storage)});
}

void Engine::CheckSpan(Index storage, Bytes offset, Bytes bytes) const {
  CheckStorage(storage);
  const Bytes size = engine_->graph().storages[storage].bytes;
  if (offset < 0 || bytes < 0 || bytes > size || offset > size - bytes)
    Raise({fmt::format("storage {}: expected a part of its {} bytes", storage, size)});
}

run::StepCall Engine::Half(const Places& outside, Signals& signals) const {
  run::StepCall call{.interrupted = [&signals] { return signals.Interrupted(); }};
  for (const auto& [storage, address] : outside) {
    CheckStorage(storage);
    if (!engine_->graph().storages[storage].outside)
      Raise({fmt::format("storage {}: expected one that lies outside the pool", storage)});
    call.outside.emplace_back(storage, reinterpret_cast<std::byte*>(address));  // NOLINT
  }
  return call;
}

void Engine::CheckShared() const {
  if (!shared_) Raise({"the engine is alone on its pool"});
}

void Engine::Join(const std::string& name, std::int64_t weight, int priority, int lane) {
  CheckShared();
  if (job_) Raise({"the step is among the others already"});
  share::JobShape shape = mooring_.shape;
  shape.name = name;
  shape.weight = weight;
  shape.priority = priority;
  shape.lane = lane;
  const Result<share::JobId> job = [&] {
    nb::gil_scoped_release release;
    return shared_->harbour->Join(shape);
  }();
  if (!job) Raise(job.error());
  run::Berth berth = mooring_.berth();
  berth.state = shared_->harbour->StateAddress(*job);
  Status moored = engine_->device().Hold(berth.state, mooring_.state);
  if (moored) moored = engine_->Moor(std::move(berth));
  if (!moored) {
    engine_->device().LetGo(shared_->harbour->StateAddress(*job));
    shared_->harbour->Leave(*job);
    Raise(moored.error());
  }
  job_ = *job;
}

void Engine::Leave() {
  if (!job_) return;
  {
    nb::gil_scoped_release release;
    engine_->device().Drain();
  }
  engine_->device().LetGo(engine_->berth().state);
  shared_->harbour->Leave(*job_);
  job_.reset();
}

void Engine::Stop() {
  CheckShared();
  if (job_) shared_->harbour->Stop(*job_);
}

void Engine::Resume() {
  CheckShared();
  if (job_) shared_->harbour->Resume(*job_);
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
