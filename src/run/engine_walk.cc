// The steps of a plan one by one: what enters and leaves at each boundary, and the op between.
#include <algorithm>
#include <utility>

#include "run/engine.h"
#include "run/failures.h"

namespace ebbtide::run {

using sim::kNone;
using sim::Stay;

Outcome Engine::Walk(const StepCall& call, Index from, Index to) {
  for (Index k = from; k < to; ++k) {
    const Visit& visit = itinerary().visits[k];
    if (!visit.in_update && call.interrupted && call.interrupted())
      return Failed(Failure::Kind::kInterrupted, "interrupted");
    EBB_RUN(Boundary(k, visit));
    if (visit.op != kNone) EBB_RUN(RunStep(k, visit, call));
  }
  return {};
}

void Engine::Begin(Index s, Bytes address) {
  at_[s] = address;
  live_ += workload_.bytes[s];
  report_.live_peak = std::max(report_.live_peak, live_);
  report_.peak = std::max(report_.peak, berth_.HeightOf(address, workload_.bytes[s]));
  runner_.Bind(s, device_->At(address));
}

void Engine::End(Index s) {
  if (at_[s] < 0) return;
  if (berth_.InLane(at_[s]) && workload_.bytes[s] > 0) device_->LetGo(at_[s]);
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
  const Stay& stay = schedule().stays[i];
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

// Where a group begins: what the ones before it needed is gone by now, and nothing of its own is there yet.
Outcome Engine::EnterGroup(Index step, bool must) {
  if (group_ + 1 >= berth_.groups.size() || berth_.groups[group_ + 1] != step) return {};
  const Nanos begin = Now();
  const tl::expected<Bytes, Failure> height = gate_->Next(group_ + 1, must);
  report_.wait_for_turn += Now() - begin;
  if (!height) return tl::unexpected<Failure>(height.error());
  ++group_;
  granted_ = *height;
  return {};
}

Outcome Engine::Hold(Bytes address, Bytes bytes) {
  if (!berth_.InLane(address) || bytes == 0) return {};
  const Bytes taken = berth_.from_top ? berth_.lane + berth_.lane_bytes - address : address + bytes - berth_.lane;
  if (gate_ && taken > granted_) {
    return Failed(Failure::Kind::kOther,
                  fmt::format("group {} takes {} bytes of its lane, and was given {}", group_, taken, granted_));
  }
  return FromStatus(device_->Hold(address, bytes));
}

// What the op makes and needs meanwhile is its own before it runs.
Outcome Engine::HoldForOp(const Visit& visit) {
  if (!berth_.shared()) return {};
  for (const Birth& birth : visit.births) {
    EBB_RUN(Hold(birth.address, workload_.bytes[birth.storage]));
    if (workload_.bytes[birth.storage] > 0) op_holds_.emplace_back(birth.address, birth.kept);
  }
  EBB_RUN(Hold(visit.scratch_address, visit.scratch_bytes));
  if (visit.scratch_bytes > 0) op_holds_.emplace_back(visit.scratch_address, false);
  return {};
}

// `all`: the op has come to nothing. Else what it has made, and is kept, stays held.
void Engine::LetGoOfOp(bool all) {
  for (const auto& [address, kept] : op_holds_) {
    if (berth_.InLane(address) && (all || !kept)) device_->LetGo(address);
  }
  op_holds_.clear();
}

Outcome Engine::Boundary(Index k, const Visit& visit) {
  outcome_.boundary.push_back(device_->Mark());
  for (const Index i : visit.leaving) {
    tickets_[i] = QueueCopy(i, true).value_or(0);
    report_.copied_out += graph_.storages[schedule().stays[i].storage].bytes;
  }
  for (const Index i : visit.ending) {
    const Stay& stay = schedule().stays[i];
    if (arriving_[stay.storage] != kNone) EBB_RUN(AwaitCopy(std::exchange(arriving_[stay.storage], kNone), false));
    if (stay.end == sim::End::kCopyOut) EBB_RUN(AwaitCopy(i, true));
    End(stay.storage);
  }
  if (gate_) EBB_RUN(EnterGroup(k, visit.in_update));
  outcome_.released.push_back(device_->Mark());
  for (const Index i : visit.entering) {
    const Stay& stay = schedule().stays[i];
    EBB_RUN(Hold(stay.address, workload_.bytes[stay.storage]));
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
  const std::size_t random_bytes = itinerary().draws > 0 ? runner_.RandomBytes() : 0;
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
    if (birth.bytes == 0) continue;
    const Bytes height = berth_.HeightOf(birth.address, workload_.bytes[birth.storage]);
    report_.peak = std::max(report_.peak, height);
  }
  EBB_RUN(HoldForOp(visit));
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
  LetGoOfOp(false);
  report_.live_peak = std::max(report_.live_peak, live_ + beside + memory_.most());
  for (const auto& [address, bytes] : memory_.given())
    report_.peak = std::max(report_.peak, berth_.HeightOf(address, bytes));
  report_.beyond_plan = std::max(report_.beyond_plan, memory_.beyond());
  return {};
}

// What of the pool is the step's now and in no use.
std::vector<std::pair<Bytes, Bytes>> Engine::FreeRanges(Index step) const {
  std::vector<std::pair<Bytes, Bytes>> taken;
  for (const Stay& stay : schedule().stays) {
    if (stay.from <= step && step < stay.to) taken.emplace_back(stay.address, workload_.bytes[stay.storage]);
  }
  const Visit& visit = itinerary().visits[step];
  for (const Birth& birth : visit.births) taken.emplace_back(birth.address, workload_.bytes[birth.storage]);
  taken.emplace_back(visit.scratch_address, visit.scratch_bytes);
  std::ranges::sort(taken);
  std::vector<std::pair<Bytes, Bytes>> out;
  const auto within = [&](Bytes at, Bytes end) {
    const auto gap = [&](Bytes until) {
      const Bytes aligned = RoundUp(at, std::min(plan_.alignment, device_->alignment()));
      if (aligned < until) out.emplace_back(aligned, until - aligned);
    };
    for (const auto& [address, bytes] : taken) {
      if (bytes <= 0 || address + bytes <= at || address >= end) continue;
      gap(address);
      at = std::max(at, address + bytes);
    }
    gap(end);
  };
  if (!berth_.shared()) {
    within(0, device_->capacity());
    return out;
  }
  within(berth_.state, berth_.state + berth_.state_bytes);
  const Bytes top = berth_.lane + berth_.lane_bytes;
  berth_.from_top ? within(top - granted_, top) : within(berth_.lane, berth_.lane + granted_);
  return out;
}

}  // namespace ebbtide::run
