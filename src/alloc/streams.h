// Streams and events as an allocator sees them: what was submitted, and how much of it the device has finished.
// Whoever simulates time moves `Finish` along; an allocator only records, asks and waits.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace ebbtide::alloc {

using StreamId = Id<struct StreamTag>;

// A point in the work of one stream. It is reached when all that was submitted before it is finished.
struct Event {
  StreamId stream;
  std::int64_t position = 0;
};

class Streams {
 public:
  // Work is submitted that is not finished yet.
  void Submit(StreamId stream, std::int64_t work = 1) { At(stream).submitted += work; }
  Event Record(StreamId stream) { return {stream, At(stream).submitted}; }
  bool Reached(const Event& event) const {
    return event.stream.index() >= states_.size() || states_[event.stream.index()].finished >= event.position;
  }
  // The last position of the stream that is reached.
  std::int64_t finished(StreamId stream) const {
    return stream.index() < states_.size() ? states_[stream.index()].finished : 0;
  }
  // The device has got this far.
  void Finish(const Event& event) {
    State& state = At(event.stream);
    if (state.finished < event.position) state.finished = event.position;
  }
  void FinishAll() {
    for (State& state : states_) state.finished = state.submitted;
  }
  // The host waits: what stands before the event is finished afterwards. Waits that had to wait are counted.
  void Wait(const Event& event) {
    if (Reached(event)) return;
    ++host_waits_;
    Finish(event);
  }
  void WaitAll() {
    for (State& state : states_) {
      host_waits_ += state.finished < state.submitted;
      state.finished = state.submitted;
    }
  }
  std::int64_t host_waits() const { return host_waits_; }

 private:
  struct State {
    std::int64_t submitted = 0;
    std::int64_t finished = 0;
  };
  State& At(StreamId stream) {
    if (stream.index() >= states_.size()) states_.resize(stream.index() + 1);
    return states_[stream.index()];
  }

  std::vector<State> states_;
  std::int64_t host_waits_ = 0;
};

}  // namespace ebbtide::alloc
