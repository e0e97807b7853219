#include "run/engine.h"

#include <new>

#include "run/failures.h"

namespace ebbtide::run {

Engine::Engine(TrainingGraph graph, plan::Plan plan, std::shared_ptr<Device> device, OpRunner& runner)
    : graph_(std::move(graph)),
      plan_(std::move(plan)),
      device_(std::move(device)),
      runner_(runner),
      memory_(*device_, std::min(plan_.alignment, device_->alignment())) {}

Result<std::unique_ptr<Engine>> Engine::Make(TrainingGraph graph, plan::Plan plan, std::shared_ptr<Device> device,
                                             OpRunner& runner) {
  std::unique_ptr<Engine> engine(new Engine(std::move(graph), std::move(plan), std::move(device), runner));
  EBB_RETURN_IF_ERROR(engine->Prepare());
  return engine;
}

Status Engine::Prepare() {
  EBB_RETURN_IF_ERROR(plan::CheckPlan(plan_, graph_));
  std::vector<Nanos> times;
  for (const Op& op : graph_.ops) times.push_back(op.time);
  workload_ = sim::MakeWorkload(graph_, std::move(times), {.alignment = plan_.alignment});
  const Bytes height = sim::Height(workload_, plan_.schedule);
  if (height > device_->capacity()) {
    return Fail("the plan needs {} bytes ({}), the pool has {} ({})", height, FormatBytes(height), device_->capacity(),
                FormatBytes(device_->capacity()));
  }
  EBB_ASSIGN_OR_RETURN(placed_[0], PlaceAt(graph_, workload_, plan_.schedule, berth_));
  for (const sim::Stay& stay : plan_.schedule.stays) {
    if (graph_.storages[stay.storage].outside && stay.end != sim::End::kStays)
      return Fail("the plan moves storage {}, which lies outside the pool; expected it to stay there", stay.storage);
  }
  Bytes host = 0;
  swap_slot_.assign(workload_.storages(), -1);
  undo_slot_.assign(workload_.storages(), -1);
  for (const sim::Stay& stay : plan_.schedule.stays) {
    if (stay.end != sim::End::kCopyOut || swap_slot_[stay.storage] >= 0) continue;
    swap_slot_[stay.storage] = host;
    host += workload_.bytes[stay.storage];
  }
  for (const Index s : itinerary().undo) {
    undo_slot_[s] = host;
    host += workload_.bytes[s];
  }
  protect_slot_ = host;
  Bytes protect = 0;
  for (const Visit& visit : itinerary().visits) {
    Bytes bytes = 0;
    for (const Index s : visit.protect) bytes += graph_.storages[s].bytes;
    protect = std::max(protect, bytes);
  }
  EBB_ASSIGN_OR_RETURN(host_, device_->MakeHostMemory(host + protect));
  random_.resize(runner_.RandomBytes() * (1 + itinerary().draws));
  requests_.resize(graph_.ops.size());
  tickets_.resize(plan_.schedule.stays.size());
  at_.assign(workload_.storages(), -1);
  outside_.assign(workload_.storages(), nullptr);
  return {};
}

Status Engine::Moor(Berth berth) {
  if (berth.groups.empty()) berth.groups.push_back(0);
  EBB_ASSIGN_OR_RETURN(Placed placed, PlaceAt(graph_, workload_, plan_.schedule, berth));
  Abandon();
  berth_ = std::move(berth);
  for (Placed& each : placed_) each = {};
  placed_[berth_.from_top] = std::move(placed);
  now_ = &placed_[berth_.from_top];
  return {};
}

// Waits for the turn of the iteration, and places the plan where it may lie.
Outcome Engine::Arrive() {
  const tl::expected<Gate::Grant, Failure> grant = gate_->Begin();
  if (!grant) return tl::unexpected<Failure>(grant.error());
  berth_.lane = grant->lane;
  berth_.lane_bytes = grant->lane_bytes;
  berth_.from_top = grant->from_top;
  granted_ = grant->height;
  group_ = 0;
  Placed& placed = placed_[berth_.from_top];
  if (placed.anchor != berth_.anchor()) {
    Result<Placed> made = PlaceAt(graph_, workload_, plan_.schedule, berth_);
    if (!made) {
      gate_->End();
      return Failed(Failure::Kind::kOther, made.error().message);
    }
    placed = *std::move(made);
  }
  now_ = &placed;
  return {};
}

tl::expected<StepReport, Failure> Engine::Step(const StepCall& call) {
  Abandon();
  const Nanos before = Now();
  gate_ = call.gate;
  if (gate_) {
    if (Outcome arrived = Arrive(); !arrived) return tl::unexpected<Failure>(std::move(arrived).error());
  }
  const Nanos waited = Now() - before;
  Start();
  report_.wait_for_turn = waited;
  Outcome outcome = Try([&]() -> Outcome {
    EBB_RUN(MoveIn(call));
    EBB_RUN(Walk(call, 0, static_cast<Index>(itinerary().visits.size())));
    return Finish(call);
  });
  if (!outcome) {
    device_->Drain();
    if (update_begun_) {
      std::ignore = GoHome();
      outcome.error().message += "; the update had begun, so parameters and optimizer state are partly new";
    } else {
      Undo();
    }
    device_->Drain();
  }
  Leave(call);
  EndAll();
  if (gate_) gate_->End();
  if (!outcome) return tl::unexpected<Failure>(std::move(outcome).error());
  report_.time = Elapsed();
  Describe();
  return std::move(report_);
}

Outcome Engine::Forward(const StepCall& call) {
  Abandon();
  gate_ = nullptr;
  Start();
  Outcome outcome = Try([&]() -> Outcome {
    EBB_RUN(MoveIn(call));
    return Walk(call, 0, itinerary().middle);
  });
  if (!outcome) {
    device_->Drain();
    Undo();
    device_->Drain();
    EndAll();
  }
  Leave(call);
  midway_ = outcome.has_value();
  report_.time = Elapsed();
  return outcome;
}

tl::expected<StepReport, Failure> Engine::Backward(const StepCall& call) {
  if (!midway_) return Failed(Failure::Kind::kOther, "backward without a forward");
  const Nanos begin = Now();
  Enter(call);
  Outcome outcome = Try([&]() -> Outcome {
    EBB_RUN(Walk(call, itinerary().middle, static_cast<Index>(itinerary().visits.size())));
    return Finish(call);
  });
  Abandon();
  Leave(call);
  if (!outcome) return tl::unexpected<Failure>(std::move(outcome).error());
  report_.time += Now() - begin;
  Describe();
  return std::move(report_);
}

void Engine::Abandon() {
  if (!midway_) return;
  midway_ = false;
  device_->Drain();
  EndAll();
}

void Engine::Start() {
  report_ = {};
  report_.step_time.assign(plan_.schedule.steps.size(), 0);
  arriving_.assign(workload_.storages(), sim::kNone);
  has_left_.assign(workload_.storages(), false);
  at_ = itinerary().home;
  new_.assign(workload_.storages(), false);
  undoable_ = 0;
  live_ = 0;
  outcome_ = {};
  queued_.clear();
  update_begun_ = false;
  // Nothing of ours is to ask the host for memory during the update.
  outcome_.timeline.reserve(plan_.schedule.steps.size() + 2 * plan_.schedule.stays.size());
  outcome_.boundary.reserve(itinerary().visits.size());
  outcome_.released.reserve(itinerary().visits.size());
  queued_.reserve(2 * plan_.schedule.stays.size());
  spans_.clear();
  spans_.reserve(3 * plan_.schedule.steps.size() + 4 * plan_.schedule.stays.size());
  std::ignore = device_->TakeCopies();
  begin_ = Now();
  device_->StartClock();
}

Outcome Engine::Try(const std::function<Outcome()>& part) {
  try {
    return part();
  } catch (const std::bad_alloc&) {
    return Failed(Failure::Kind::kOutOfMemory, "the host has no memory left");
  }
}

void Engine::EndAll() {
  LetGoOfOp(true);
  for (Index s = 0; s < at_.size(); ++s) {
    const Bytes home = itinerary().home[s];
    if (at_[s] < 0) continue;
    if (home < 0 || berth_.InLane(home)) {
      End(s);
    } else if (berth_.InLane(at_[s])) {  // state, which has gone home
      if (workload_.bytes[s] > 0) device_->LetGo(at_[s]);
      at_[s] = home;
    }
  }
}

void Engine::Enter(const StepCall& call) {
  for (const auto& [s, at] : call.outside) {
    outside_[s] = at;
    runner_.Bind(s, at);
  }
}

void Engine::Leave(const StepCall& call) {
  for (const auto& [s, at] : call.outside) {
    outside_[s] = nullptr;
    runner_.Bind(s, nullptr);
  }
}

// Relative to the pool, also of what lies outside it.
Bytes Engine::AddressNow(Index s) const { return outside_[s] ? outside_[s] - device_->At(0) : at_[s]; }

}  // namespace ebbtide::run
