#include "run/engine.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "run/made_up.h"

namespace ebbtide::run {
namespace {

using sim::Begin;
using sim::kNone;
using sim::Stay;

tl::unexpected<Failure> Failed(Failure::Kind kind, std::string message) {
  return tl::unexpected<Failure>(Failure{kind, std::move(message)});
}

Outcome FromStatus(const Status& status) {
  if (status) return {};
  return Failed(Failure::Kind::kOther, status.error().message);
}

// An access to device memory. Once the update has begun, one that fails is tried again.
template <class Try>
Outcome Access(bool in_update, Try access) {
  Status done = access();
  if (!done && in_update) done = access();
  return FromStatus(done);
}

#define EBB_RUN(expression) \
  if (Outcome outcome = (expression); !outcome) return tl::unexpected<Failure>(std::move(outcome).error())

}  // namespace

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
  itinerary_ = MakeItinerary(graph_, workload_, plan_.schedule);
  for (const Stay& stay : plan_.schedule.stays) {
    if (graph_.storages[stay.storage].outside && stay.end != sim::End::kStays)
      return Fail("the plan moves storage {}, which lies outside the pool; expected it to stay there", stay.storage);
  }
  Bytes host = 0;
  swap_slot_.assign(workload_.storages(), -1);
  for (const Stay& stay : plan_.schedule.stays) {
    if (stay.end != sim::End::kCopyOut || swap_slot_[stay.storage] >= 0) continue;
    swap_slot_[stay.storage] = host;
    host += workload_.bytes[stay.storage];
  }
  for (const Index s : itinerary_.undo) {
    undo_slot_.push_back(host);
    host += workload_.bytes[s];
  }
  protect_slot_ = host;
  Bytes protect = 0;
  for (const Visit& visit : itinerary_.visits) {
    Bytes bytes = 0;
    for (const Index s : visit.protect) bytes += graph_.storages[s].bytes;
    protect = std::max(protect, bytes);
  }
  EBB_ASSIGN_OR_RETURN(host_, device_->MakeHostMemory(host + protect));
  random_.resize(runner_.RandomBytes() * (1 + itinerary_.draws));
  requests_.resize(graph_.ops.size());
  tickets_.resize(plan_.schedule.stays.size());
  at_.assign(workload_.storages(), -1);
  outside_.assign(workload_.storages(), nullptr);
  return {};
}

tl::expected<StepReport, Failure> Engine::Step(const StepCall& call) {
  Abandon();
  Start();
  Outcome outcome = Try([&]() -> Outcome {
    EBB_RUN(MoveIn(call));
    EBB_RUN(Walk(call, 0, static_cast<Index>(itinerary_.visits.size())));
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
  if (!outcome) return tl::unexpected<Failure>(std::move(outcome).error());
  report_.time = Elapsed();
  Describe();
  return std::move(report_);
}

Outcome Engine::Forward(const StepCall& call) {
  Abandon();
  Start();
  Outcome outcome = Try([&]() -> Outcome {
    EBB_RUN(MoveIn(call));
    return Walk(call, 0, itinerary_.middle);
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
    EBB_RUN(Walk(call, itinerary_.middle, static_cast<Index>(itinerary_.visits.size())));
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
  arriving_.assign(workload_.storages(), kNone);
  has_left_.assign(workload_.storages(), false);
  at_ = itinerary_.home;
  new_.assign(workload_.storages(), false);
  undoable_ = 0;
  live_ = 0;
  outcome_ = {};
  queued_.clear();
  update_begun_ = false;
  // Nothing of ours is to ask the host for memory during the update.
  outcome_.timeline.reserve(plan_.schedule.steps.size() + 2 * plan_.schedule.stays.size());
  outcome_.boundary.reserve(itinerary_.visits.size());
  outcome_.released.reserve(itinerary_.visits.size());
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
  for (Index s = 0; s < at_.size(); ++s) {
    if (at_[s] >= 0 && itinerary_.home[s] < 0) End(s);
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

Outcome Engine::Walk(const StepCall& call, Index from, Index to) {
  for (Index k = from; k < to; ++k) {
    const Visit& visit = itinerary_.visits[k];
    if (!visit.in_update && call.interrupted && call.interrupted())
      return Failed(Failure::Kind::kInterrupted, "interrupted");
    EBB_RUN(Boundary(visit));
    if (visit.op != kNone) EBB_RUN(RunStep(k, visit, call));
  }
  return {};
}

Outcome Engine::Finish(const StepCall& call) {
  const Nanos last = device_->Mark();
  device_->Drain();
  report_.drain = std::max<Nanos>(Now() - device_->When(last), 0);
  for (const HostSpan& span : call.outputs) {
    const auto stay = std::ranges::find_if(
        plan_.schedule.stays, [&](const Stay& s) { return s.storage == span.storage && s.end == sim::End::kStays; });
    if (stay == plan_.schedule.stays.end())
      return Failed(Failure::Kind::kOther, fmt::format("storage {} is no output", span.storage));
    EBB_RUN(Access(true, [&] { return device_->Read(stay->address + span.offset, span.host, span.bytes); }));
  }
  return GoHome();
}

// Before the first op: what is undone if the step fails is saved, and the inputs get their contents.
Outcome Engine::MoveIn(const StepCall& call) {
  const Nanos begin = Now();
  Enter(call);
  if (!random_.empty()) runner_.SaveRandom(random_.data());
  for (std::size_t i = 0; i < itinerary_.undo.size(); ++i) {
    const Index s = itinerary_.undo[i];
    EBB_RUN(FromStatus(device_->Save(itinerary_.home[s], host_->data() + undo_slot_[i], graph_.storages[s].bytes)));
    ++undoable_;
  }
  for (const HostSpan& span : call.inputs) {
    EBB_RUN(FromStatus(device_->Write(span.host, itinerary_.home[span.storage] + span.offset, span.bytes)));
  }
  for (Index s = 0; s < workload_.storages(); ++s) {
    if (itinerary_.home[s] < 0) continue;
    live_ += workload_.bytes[s];
    report_.peak = std::max(report_.peak, itinerary_.home[s] + workload_.bytes[s]);
  }
  report_.live_peak = live_;
  report_.moving_in = Now() - begin;
  return {};
}

void Engine::Begin(Index s, Bytes address) {
  at_[s] = address;
  live_ += workload_.bytes[s];
  report_.live_peak = std::max(report_.live_peak, live_);
  report_.peak = std::max(report_.peak, address + workload_.bytes[s]);
  runner_.Bind(s, device_->At(address));
}

void Engine::End(Index s) {
  if (at_[s] < 0) return;
  at_[s] = -1;
  has_left_[s] = true;
  live_ -= workload_.bytes[s];
  runner_.Bind(s, nullptr);
}

Result<Ticket> Engine::QueueCopy(Index i, bool out) {
  Result<Ticket> ticket = Queue(i, out);
  if (ticket) queued_.push_back({*ticket, i, out});
  return ticket;
}

Result<Ticket> Engine::Queue(Index i, bool out) {
  const Stay& stay = plan_.schedule.stays[i];
  const Bytes bytes = graph_.storages[stay.storage].bytes;
  std::byte* const host = host_->data() + swap_slot_[stay.storage];
  return out ? device_->CopyOut(stay.address, host, bytes) : device_->CopyIn(host, stay.address, bytes);
}

// A copy that fails is made once more: the second time compute has nothing else to do.
Outcome Engine::AwaitCopy(Index i, bool out) {
  const Nanos begin = device_->Mark();
  Status done = tickets_[i] != 0 ? device_->Await(tickets_[i]) : Status(Fail("not queued"));
  if (!done) {
    const Result<Ticket> ticket = QueueCopy(i, out);
    done = ticket ? device_->Await(*ticket) : Status(tl::unexpected<Error>(ticket.error()));
  }
  spans_.push_back({begin, device_->Mark(), out ? &report_.wait_for_memory : &report_.wait_for_data});
  return FromStatus(done);
}

Outcome Engine::Boundary(const Visit& visit) {
  outcome_.boundary.push_back(device_->Mark());
  for (const Index i : visit.leaving) {
    tickets_[i] = QueueCopy(i, true).value_or(0);
    report_.copied_out += graph_.storages[plan_.schedule.stays[i].storage].bytes;
  }
  for (const Index i : visit.ending) {
    const Stay& stay = plan_.schedule.stays[i];
    if (stay.end == sim::End::kCopyOut) EBB_RUN(AwaitCopy(i, true));
    End(stay.storage);
  }
  outcome_.released.push_back(device_->Mark());
  for (const Index i : visit.entering) {
    const Stay& stay = plan_.schedule.stays[i];
    Begin(stay.storage, stay.address);
    tickets_[i] = QueueCopy(i, false).value_or(0);
    arriving_[stay.storage] = i;
    report_.copied_in += graph_.storages[stay.storage].bytes;
  }
  return {};
}

Outcome Engine::RunStep(Index k, const Visit& visit, const StepCall& call) {
  for (const Index s : workload_.needs[visit.op]) {
    if (arriving_[s] == kNone) continue;
    EBB_RUN(AwaitCopy(arriving_[s], false));
    arriving_[s] = kNone;
    new_[s] = true;
  }
  std::byte* protect = host_->data() + protect_slot_;
  for (const Index s : visit.protect) {
    EBB_RUN(Access(visit.in_update, [&] { return device_->Save(AddressNow(s), protect, graph_.storages[s].bytes); }));
    protect += graph_.storages[s].bytes;
  }
  const std::size_t random_bytes = itinerary_.draws > 0 ? runner_.RandomBytes() : 0;
  std::vector<std::byte> random_now;
  if (visit.draw != kNone) {
    std::byte* const kept = random_.data() + (1 + visit.draw) * random_bytes;
    if (visit.again) {
      random_now.resize(random_bytes);
      runner_.SaveRandom(random_now.data());
      runner_.LoadRandom(kept);
    } else {
      runner_.SaveRandom(kept);
    }
  }
  for (const Birth& birth : visit.births) {
    if (birth.bytes > 0) report_.peak = std::max(report_.peak, birth.address + workload_.bytes[birth.storage]);
  }
  update_begun_ = update_begun_ || visit.in_update;
  memory_.Begin(visit, requests_[visit.op], [this, k] { return Spare(k); });
  Nanos begin = device_->Mark();
  Outcome ran = Access(visit.in_update, [&] { return Declare(visit); });
  if (ran) {
    begin = Waited(begin, visit);
    const Nanos own = by_thread_ ? ThreadNow() : 0;
    ran = runner_.Run(visit.op, call.scalars, memory_, made_);
    if (by_thread_) report_.step_time[k] = ThreadNow() - own;
    device_->EndOp();
  }
  const Nanos end = device_->Mark();
  outcome_.timeline.push_back({sim::Stream::kCompute, begin, end, visit.op, kNone, visit.again});
  if (!by_thread_) spans_.push_back({begin, end, &report_.step_time[k]});
  if (visit.again) spans_.push_back({begin, end, &report_.recompute});
  if (!random_now.empty()) runner_.LoadRandom(random_now.data());
  protect = host_->data() + protect_slot_;
  for (const Index s : visit.protect) {
    EBB_RUN(
        Access(visit.in_update, [&] { return device_->Restore(protect, AddressNow(s), graph_.storages[s].bytes); }));
    protect += graph_.storages[s].bytes;
  }
  if (!ran) {
    const Op& op = graph_.ops[visit.op];
    ran.error().message = fmt::format("op {} ({}{}{}): {}", visit.op, op.kind, op.layer.empty() ? "" : " of ", op.layer,
                                      ran.error().message);
    return ran;
  }
  return Settle(visit, made_);
}

// Tells the device what the op is about to touch.
Status Engine::Declare(const Visit& visit) {
  accesses_.clear();
  const auto add = [&](Index s, Bytes address, bool writes) {
    accesses_.push_back({address, graph_.storages[s].bytes, writes});
  };
  for (const Index s : workload_.needs[visit.op]) add(s, AddressNow(s), false);
  for (const Index s : workload_.changes[visit.op]) add(s, AddressNow(s), true);
  for (const Birth& birth : visit.births) add(birth.storage, birth.address, true);
  accesses_.push_back({visit.scratch_address, visit.scratch_bytes, true});
  return device_->BeginOp(graph_.ops[visit.op].kind.c_str(), accesses_);
}

// Compute stood still for what the op was to touch, from the mark on: until when.
Nanos Engine::Waited(Nanos from, const Visit& visit) {
  const Nanos until = device_->Mark();
  const bool for_data = std::ranges::any_of(workload_.needs[visit.op], [&](Index s) { return new_[s]; });
  spans_.push_back({from, until, for_data ? &report_.wait_for_data : &report_.wait_for_memory});
  for (const Index s : workload_.needs[visit.op]) new_[s] = false;
  return until;
}

// What the op may have beyond the plan, told to the device as well.
std::vector<std::pair<Bytes, Bytes>> Engine::Spare(Index step) {
  std::vector<std::pair<Bytes, Bytes>> ranges = FreeRanges(step);
  std::vector<Used> accesses;
  for (const auto& [address, bytes] : ranges) accesses.push_back({address, bytes, true});
  if (!device_->BeginOp("memory beyond the plan", accesses)) return {};
  device_->EndOp();
  return ranges;
}

// What the op has made gets to where the plan has it.
Outcome Engine::Settle(const Visit& visit, std::vector<Made>& made) {
  const Op& op = graph_.ops[visit.op];
  if (made.size() != visit.births.size()) {
    return Failed(Failure::Kind::kOther, fmt::format("op {} ({}): made {} storages, the graph has {}", visit.op,
                                                     op.kind, made.size(), visit.births.size()));
  }
  Bytes beside = 0;
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> elsewhere;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Birth& birth = visit.births[i];
    if (made[i].bytes > workload_.bytes[birth.storage]) {
      return Failed(Failure::Kind::kOther, fmt::format("op {} ({}): made {} bytes, the graph has {}", visit.op, op.kind,
                                                       made[i].bytes, birth.bytes));
    }
    if (!birth.kept) beside += workload_.bytes[birth.storage];
    if (made[i].bytes == 0 || made[i].at == device_->At(birth.address)) continue;
    ++report_.relocated;
    if (!birth.kept) continue;
    std::vector<std::byte>& bytes =
        elsewhere.emplace_back(i, std::vector<std::byte>(static_cast<std::size_t>(made[i].bytes))).second;
    EBB_RUN(Access(visit.in_update,
                   [&] { return device_->Read(made[i].at - device_->At(0), bytes.data(), made[i].bytes); }));
  }
  for (const auto& moved : elsewhere) {
    const std::size_t i = moved.first;
    EBB_RUN(Access(visit.in_update,
                   [&] { return device_->Write(moved.second.data(), visit.births[i].address, made[i].bytes); }));
  }
  if (!elsewhere.empty() || requests_[visit.op].empty()) requests_[visit.op] = memory_.RequestsOf(made);
  for (const Birth& birth : visit.births) {
    if (birth.kept) Begin(birth.storage, birth.address);
  }
  report_.live_peak = std::max(report_.live_peak, live_ + beside + memory_.most());
  report_.peak = std::max(report_.peak, memory_.highest());
  report_.beyond_plan = std::max(report_.beyond_plan, memory_.beyond());
  return {};
}

tl::expected<std::vector<Nanos>, Failure> Engine::Rehearse(int runs, bool one_thread) {
  by_thread_ = one_thread;
  std::vector<std::byte> random(runner_.RandomBytes());
  runner_.SaveRandom(random.data());
  StepCall call;
  for (const Scalar& scalar : graph_.scalars) call.scalars.push_back(scalar.value);
  std::vector<std::vector<Nanos>> times(graph_.ops.size());
  std::optional<Failure> failure;
  for (int i = 0; i <= runs && !failure; ++i) {
    for (std::size_t s = 0; s < itinerary_.home.size(); ++s) {
      if (itinerary_.home[s] < 0) continue;
      FillMadeUp(graph_, StorageId(s), *device_, itinerary_.home[s]);
      runner_.Bind(static_cast<Index>(s), device_->At(itinerary_.home[s]));
    }
    const auto report = Step(call);
    if (!report) failure = report.error();
    if (!report || i == 0) continue;  // the first makes tensors and pages
    for (std::size_t k = 0; k < report->step_time.size(); ++k) {
      if (!itinerary_.visits[k].again) times[plan_.schedule.steps[k]].push_back(report->step_time[k]);
    }
  }
  runner_.LoadRandom(random.data());
  by_thread_ = false;
  if (failure) return tl::unexpected<Failure>(*std::move(failure));
  std::vector<Nanos> out;
  for (std::vector<Nanos>& each : times) {
    const auto middle = each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2);
    std::ranges::nth_element(each, middle);
    out.push_back(each.empty() ? 0 : *middle);
  }
  return out;
}

void Engine::Describe() {
  for (const Span& span : spans_) *span.sum += device_->When(span.end) - device_->When(span.begin);
  for (sim::Span& interval : outcome_.timeline) {
    interval.begin = device_->When(interval.begin) - begin_;
    interval.end = device_->When(interval.end) - begin_;
  }
  for (std::vector<Nanos>* const moments : {&outcome_.boundary, &outcome_.released}) {
    for (Nanos& moment : *moments) moment = device_->When(moment) - begin_;
  }
  outcome_.time = report_.time;
  outcome_.peak = report_.live_peak;
  outcome_.recompute = report_.recompute;
  outcome_.wait_for_memory = report_.wait_for_memory;
  outcome_.wait_for_data = report_.wait_for_data;
  outcome_.drain = report_.drain;
  outcome_.copied_out = report_.copied_out;
  outcome_.copied_in = report_.copied_in;
  for (Index s = 0; s < swap_slot_.size(); ++s) outcome_.host_peak += swap_slot_[s] >= 0 ? workload_.bytes[s] : 0;
  outcome_.left.assign(plan_.schedule.stays.size(), 0);
  std::ranges::sort(queued_, {}, &Queued::ticket);
  for (const CopySpan& span : device_->TakeCopies()) {
    const auto queued = std::ranges::lower_bound(queued_, span.ticket, {}, &Queued::ticket);
    if (queued == queued_.end() || queued->ticket != span.ticket) continue;
    outcome_.timeline.push_back({queued->out ? sim::Stream::kToHost : sim::Stream::kToDevice, span.begin - begin_,
                                 span.end - begin_, kNone, plan_.schedule.stays[queued->stay].storage, false});
    if (queued->out) outcome_.left[queued->stay] = span.end - begin_;
  }
}

// State that the iteration has left elsewhere goes back to where the next one expects it. By way of the host: places
// overlap.
Outcome Engine::GoHome() {
  for (const Index s : itinerary_.moved) {
    if (at_[s] < 0 || at_[s] == itinerary_.home[s]) continue;
    EBB_RUN(
        Access(true, [&] { return device_->Read(at_[s], host_->data() + swap_slot_[s], graph_.storages[s].bytes); }));
  }
  for (const Index s : itinerary_.moved) {
    if (at_[s] == itinerary_.home[s]) continue;
    EBB_RUN(Access(true, [&] {
      return device_->Write(host_->data() + swap_slot_[s], itinerary_.home[s], graph_.storages[s].bytes);
    }));
  }
  for (const Index s : itinerary_.moved) runner_.Bind(s, device_->At(itinerary_.home[s]));
  return {};
}

void Engine::Undo() {
  for (const Index s : itinerary_.moved) {
    // What has left is on the host, as it was: only the update changes it, and buffers, which follow.
    if (has_left_[s] && graph_.storages[s].bytes > 0) {
      std::ignore = Access(true, [&] {
        return device_->Write(host_->data() + swap_slot_[s], itinerary_.home[s], graph_.storages[s].bytes);
      });
    }
    runner_.Bind(s, device_->At(itinerary_.home[s]));
  }
  for (std::size_t i = 0; i < undoable_; ++i) {
    const Index s = itinerary_.undo[i];
    std::ignore = Access(true, [&] {
      return device_->Write(host_->data() + undo_slot_[i], itinerary_.home[s], graph_.storages[s].bytes);
    });
  }
  if (!random_.empty()) runner_.LoadRandom(random_.data());
}

std::vector<std::pair<Bytes, Bytes>> Engine::FreeRanges(Index step) const {
  std::vector<std::pair<Bytes, Bytes>> taken;
  for (const Stay& stay : plan_.schedule.stays) {
    if (stay.from <= step && step < stay.to) taken.emplace_back(stay.address, workload_.bytes[stay.storage]);
  }
  const Visit& visit = itinerary_.visits[step];
  for (const Birth& birth : visit.births) taken.emplace_back(birth.address, workload_.bytes[birth.storage]);
  taken.emplace_back(visit.scratch_address, visit.scratch_bytes);
  std::ranges::sort(taken);
  std::vector<std::pair<Bytes, Bytes>> out;
  Bytes at = 0;
  const auto gap = [&](Bytes until) {
    const Bytes aligned = RoundUp(at, std::min(plan_.alignment, device_->alignment()));
    if (aligned < until) out.emplace_back(aligned, until - aligned);
  };
  for (const auto& [address, bytes] : taken) {
    if (bytes <= 0) continue;
    gap(address);
    at = std::max(at, address + bytes);
  }
  gap(device_->capacity());
  return out;
}

}  // namespace ebbtide::run
