// Records and waits.
#include "phantom/core/event.h"

#include "phantom/core/declare.h"
#include "phantom/core/device.h"

namespace ebbtide::phantom {

void Event::Record(Stream& stream) {
  Mark mark = stream.Record();
  std::lock_guard lock(mutex_);
  last_ = std::move(mark);
}

std::optional<Mark> Event::Last() {
  std::lock_guard lock(mutex_);
  return last_;
}

// Seen to be over, it orders what the host submits next, just as a wait does, unless queries were said not to.
bool Event::Query() {
  std::optional<Mark> mark = Last();
  if (!mark) return true;
  if (!mark->position.Reached()) return false;
  if (device_.races) QueriesOrder() ? device_.races->HostWaits(mark->clock) : device_.races->HostSaw(mark->clock);
  return true;
}

void Event::Synchronize() {
  std::optional<Mark> mark = Last();
  if (!mark) return;
  mark->position.Wait();
  device_.host.Reach(mark->Time());
  if (device_.races) device_.races->HostWaits(mark->clock);
}

Code Event::MakeWait(Stream& stream) {
  std::optional<Mark> mark = Last();
  return mark ? stream.WaitFor(*mark) : Code::kSuccess;
}

bool Event::IsCaptured() {
  std::optional<Mark> mark = Last();
  return mark && mark->capture;
}

Code Event::Elapsed(Event& from, Event& to, Nanos& out) {
  if ((from.flags_ | to.flags_) & kDisableTiming) return Code::kInvalidHandle;
  std::optional<Mark> begin = from.Last();
  std::optional<Mark> end = to.Last();
  if (!begin || !end) return Code::kInvalidHandle;
  if (begin->capture || end->capture) return Code::kCapturedEvent;
  if (!begin->position.Reached() || !end->position.Reached()) return Code::kNotReady;
  out = end->Time() - begin->Time();
  return Code::kSuccess;
}

}  // namespace ebbtide::phantom
