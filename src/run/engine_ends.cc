// How a step begins and how it ends: what an undo needs is saved, state goes back to where the next step expects it,
// and of a step that has failed nothing is left.
#include <algorithm>

#include "run/engine.h"
#include "run/failures.h"

namespace ebbtide::run {

using sim::kNone;
using sim::Stay;

Outcome Engine::Finish(const StepCall& call) {
  const Nanos last = device_->Mark();
  for (const HostSpan& span : call.outputs) {
    const auto stay = std::ranges::find_if(
        schedule().stays, [&](const Stay& s) { return s.storage == span.storage && s.end == sim::End::kStays; });
    if (stay == schedule().stays.end())
      return Failed(Failure::Kind::kOther, fmt::format("storage {} is no output", span.storage));
    EBB_RUN(Access(true, [&] { return device_->Save(stay->address + span.offset, span.host, span.bytes); }));
  }
  const bool all_home = itinerary().moved.empty();
  if (gate_ && all_home) LeaveLane();
  device_->Drain();
  report_.drain = std::max<Nanos>(Now() - device_->When(last), 0);
  EBB_RUN(GoHome());
  if (gate_ && !all_home) LeaveLane();
  return {};
}

void Engine::LeaveLane() {
  EndAll();
  gate_->Left();
}

// Before the first op: what is undone if the step fails is saved, and the inputs get their contents.
Outcome Engine::MoveIn(const StepCall& call) {
  const Nanos begin = Now();
  Enter(call);
  if (!random_.empty()) runner_.SaveRandom(random_.data());
  for (std::size_t i = 0; i < itinerary().undo.size(); ++i) {
    const Index s = itinerary().undo[i];
    EBB_RUN(FromStatus(device_->Save(itinerary().home[s], host_->data() + undo_slot_[s], graph_.storages[s].bytes)));
    ++undoable_;
  }
  for (Index s = 0; s < workload_.storages(); ++s) {
    if (!berth_.InLane(itinerary().home[s])) continue;
    EBB_RUN(Hold(itinerary().home[s], workload_.bytes[s]));
    runner_.Bind(s, device_->At(itinerary().home[s]));
  }
  for (const HostSpan& span : call.inputs) {
    EBB_RUN(FromStatus(device_->Write(span.host, itinerary().home[span.storage] + span.offset, span.bytes)));
  }
  for (Index s = 0; s < workload_.storages(); ++s) {
    if (itinerary().home[s] < 0) continue;
    live_ += workload_.bytes[s];
    report_.peak = std::max(report_.peak, berth_.HeightOf(itinerary().home[s], workload_.bytes[s]));
  }
  report_.live_peak = live_;
  report_.moving_in = Now() - begin;
  return {};
}

// State that the iteration has left elsewhere goes back to where the next one expects it. By way of the host: places
// overlap.
Outcome Engine::GoHome() {
  for (const Index s : itinerary().moved) {
    if (at_[s] < 0 || at_[s] == itinerary().home[s]) continue;
    EBB_RUN(
        Access(true, [&] { return device_->Read(at_[s], host_->data() + swap_slot_[s], graph_.storages[s].bytes); }));
  }
  for (const Index s : itinerary().moved) {
    if (at_[s] == itinerary().home[s]) continue;
    EBB_RUN(Access(true, [&] {
      return device_->Write(host_->data() + swap_slot_[s], itinerary().home[s], graph_.storages[s].bytes);
    }));
  }
  for (const Index s : itinerary().moved) runner_.Bind(s, device_->At(itinerary().home[s]));
  return {};
}

void Engine::Undo() {
  for (const Index s : itinerary().moved) {
    // What has left is on the host, as it was: only the update changes it, and buffers, which follow.
    if (has_left_[s] && graph_.storages[s].bytes > 0) {
      std::ignore = Access(true, [&] {
        return device_->Write(host_->data() + swap_slot_[s], itinerary().home[s], graph_.storages[s].bytes);
      });
    }
    runner_.Bind(s, device_->At(itinerary().home[s]));
  }
  for (std::size_t i = 0; i < undoable_; ++i) {
    const Index s = itinerary().undo[i];
    std::ignore = Access(true, [&] {
      return device_->Write(host_->data() + undo_slot_[s], itinerary().home[s], graph_.storages[s].bytes);
    });
  }
  if (!random_.empty()) runner_.LoadRandom(random_.data());
}

}  // namespace ebbtide::run
