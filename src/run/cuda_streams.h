// The streams of all who drive one pool of a GPU: before an operation touches memory, its stream waits, by events, for
// the operations of others that it has to come after (access_order.h): for exactly those, and not for newer ones.
//
// Thread-safe. Operations of one stream are submitted by one thread; nothing waits for the device while others are kept
// out, so one that submits never stands still for another that does not.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "run/access_order.h"
#include "run/cuda_memory.h"

namespace ebbtide::run {

class CudaStreams {
 public:
  explicit CudaStreams(std::shared_ptr<CudaPrimary> primary) : primary_(std::move(primary)) {}
  ~CudaStreams();
  CudaStreams(const CudaStreams&) = delete;
  CudaStreams& operator=(const CudaStreams&) = delete;

  // Its number. Who has one keeps the stream, and gives it back when nothing is on it any more.
  int Add(CudaStream stream);
  void Replace(int stream, CudaStream with);
  void Remove(int stream);

  // Before an operation is submitted: the stream waits for what it has to, and then whether there was anything. The
  // operation counts as submitted from End on, and if there are several open, from the last End on.
  Result<bool> Begin(int stream, std::span<const Touch> touches);
  void End(int stream);

  // An event behind all that was submitted to the stream; and one that nobody has recorded yet. Both until the next
  // Drained.
  Result<CudaEvent> Record(int stream);
  Result<CudaEvent> TakeEvent(int stream);

  // The calling thread, the stream's own, has waited for all of it.
  void HostWaited(int stream);
  // ... and nobody asks for its events any more.
  void Drained(std::span<const int> streams);

  // Leaves out the n-th wait of one stream for another from now on; 0: none.
  void SkipWait(std::int64_t n);
  std::int64_t waits() const;

 private:
  // An event behind an operation, and what is over when it is.
  struct Point {
    CudaEvent event = nullptr;
    StreamClock clock;
  };
  struct State {
    CudaStream stream = nullptr;
    bool in_use = false;
    int open = 0;              // operations that have begun and not ended
    std::uint64_t before = 0;  // how many there were before the first of them
    std::deque<Point> points;  // since the last Drained, in order
    std::vector<CudaEvent> used;
  };

  Status Check(int code, const char* call) const;
  CudaEvent Take(State& state);
  Result<Point> RecordPoint(int stream);
  Result<Point> PointBehind(int stream, std::uint64_t number);
  Status Wait(int stream, const Point& point);

  const std::shared_ptr<CudaPrimary> primary_;
  mutable std::mutex mutex_;
  AccessOrder order_;
  std::deque<State> states_;  // by number
  std::vector<CudaEvent> events_;
  std::int64_t skip_ = 0, waits_ = 0;
};

}  // namespace ebbtide::run
