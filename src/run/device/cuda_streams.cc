// Operations of many streams on one pool: events are recorded and waited for as the order of accesses asks.
#include "run/device/cuda_streams.h"

#include <algorithm>

namespace ebbtide::run {

CudaStreams::~CudaStreams() {
  const CudaPrimary::Current current(*primary_);
  for (const CudaEvent event : events_) primary_->driver().EventDestroy(event);
  for (const State& state : states_) {
    for (const CudaEvent event : state.used) primary_->driver().EventDestroy(event);
  }
}

Status CudaStreams::Check(int code, const char* call) const {
  if (code == 0) return {};
  return Fail("device cuda: {}: {}", call, primary_->driver().NameOf(code));
}

int CudaStreams::Add(CudaStream stream) {
  const std::lock_guard lock(mutex_);
  for (std::size_t s = 0; s < states_.size(); ++s) {
    if (states_[s].in_use) continue;
    states_[s].stream = stream;
    states_[s].in_use = true;
    return static_cast<int>(s);
  }
  State& state = states_.emplace_back();
  state.stream = stream;
  state.in_use = true;
  return order_.AddStream();
}

void CudaStreams::Replace(int stream, CudaStream with) {
  const std::lock_guard lock(mutex_);
  states_[static_cast<std::size_t>(stream)].stream = with;
}

void CudaStreams::Remove(int stream) {
  const std::lock_guard lock(mutex_);
  states_[static_cast<std::size_t>(stream)].in_use = false;
}

// Null: there is none.
CudaEvent CudaStreams::Take(State& state) {
  CudaEvent event = nullptr;
  if (!events_.empty()) {
    event = events_.back();
    events_.pop_back();
  } else {
    const CudaPrimary::Current current(*primary_);
    if (primary_->driver().EventCreate(&event, 0) != 0) return nullptr;
  }
  state.used.push_back(event);
  return event;
}

Result<CudaEvent> CudaStreams::TakeEvent(int stream) {
  const std::lock_guard lock(mutex_);
  const CudaEvent event = Take(states_[static_cast<std::size_t>(stream)]);
  if (!event) return Fail("device cuda: no more events");
  return event;
}

Result<CudaStreams::Point> CudaStreams::RecordPoint(int stream) {
  State& state = states_[static_cast<std::size_t>(stream)];
  const CudaEvent event = Take(state);
  if (!event) return Fail("device cuda: no more events");
  EBB_RETURN_IF_ERROR(Check(primary_->driver().EventRecord(event, state.stream), "cuEventRecord"));
  Point point{event, order_.Of(stream)};
  // Of an operation that has only begun, nothing need be before the event.
  if (state.open > 0) point.clock.Set(stream, state.before);
  state.points.push_back(point);
  return point;
}

Result<CudaEvent> CudaStreams::Record(int stream) {
  const CudaPrimary::Current current(*primary_);
  const std::lock_guard lock(mutex_);
  EBB_ASSIGN_OR_RETURN(const Point point, RecordPoint(stream));
  return point.event;
}

// The first point of the stream that is behind its operation of that number.
Result<CudaStreams::Point> CudaStreams::PointBehind(int stream, std::uint64_t number) {
  const std::deque<Point>& points = states_[static_cast<std::size_t>(stream)].points;
  const auto point = std::ranges::lower_bound(points, number, {}, [&](const Point& p) { return p.clock[stream]; });
  if (point != points.end()) return *point;
  return RecordPoint(stream);
}

Status CudaStreams::Wait(int stream, const Point& point) {
  ++waits_;
  if (skip_ > 0 && --skip_ == 0) {
    order_.Join(stream, point.clock);
    return {};
  }
  // Where the stream cannot wait, the host does.
  const CudaDriver& driver = primary_->driver();
  if (driver.StreamWaitEvent(states_[static_cast<std::size_t>(stream)].stream, point.event, 0) != 0)
    EBB_RETURN_IF_ERROR(Check(driver.EventSynchronize(point.event), "cuEventSynchronize"));
  order_.Join(stream, point.clock);
  return {};
}

Result<bool> CudaStreams::Begin(int stream, std::span<const Touch> touches) {
  const CudaPrimary::Current current(*primary_);
  const std::lock_guard lock(mutex_);
  const StreamClock needed = order_.Needed(stream, touches);
  std::vector<std::pair<int, Point>> points;
  for (int other = 0; other < needed.size(); ++other) {
    if (needed[other] == 0) continue;
    EBB_ASSIGN_OR_RETURN(Point point, PointBehind(other, needed[other]));
    points.emplace_back(other, std::move(point));
  }
  for (const auto& [of, point] : points) {
    const bool implied = std::ranges::any_of(
        points, [&, of = of](const auto& p) { return p.first != of && p.second.clock[of] >= needed[of]; });
    if (!implied) EBB_RETURN_IF_ERROR(Wait(stream, point));
  }
  State& state = states_[static_cast<std::size_t>(stream)];
  if (state.open++ == 0) state.before = order_.Of(stream)[stream];
  order_.Add(stream, touches);
  return !points.empty();
}

void CudaStreams::End(int stream) {
  const std::lock_guard lock(mutex_);
  --states_[static_cast<std::size_t>(stream)].open;
}

void CudaStreams::HostWaited(int stream) {
  const std::lock_guard lock(mutex_);
  order_.HostWaited(stream);
}

void CudaStreams::Drained(std::span<const int> streams) {
  const std::lock_guard lock(mutex_);
  for (const int s : streams) {
    order_.HostWaited(s);
    State& state = states_[static_cast<std::size_t>(s)];
    state.points.clear();
    events_.insert(events_.end(), state.used.begin(), state.used.end());
    state.used.clear();
  }
  order_.Prune();
}

void CudaStreams::SkipWait(std::int64_t n) {
  const std::lock_guard lock(mutex_);
  skip_ = n;
}

std::int64_t CudaStreams::waits() const {
  const std::lock_guard lock(mutex_);
  return waits_;
}

}  // namespace ebbtide::run
