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

#include "run/device/access_order.h"
#include "run/device/pinned_memory.h"

namespace ebbtide::run {

class CudaStreams {
 public:
  explicit CudaStreams(std::shared_ptr<CudaPrimary> primary) : primary_(std::move(primary)) {}
  ~CudaStreams();
  CudaStreams(const CudaStreams&) = delete;
  CudaStreams& operator=(const CudaStreams&) = delete;

  // Returns the stream's number. The caller keeps the stream alive, and calls Remove when nothing is on it any more.
  int Add(CudaStream stream);
  void Replace(int stream, CudaStream with);
  void Remove(int stream);

  // Called before an operation is submitted: makes the stream wait for what the operation has to come after. Returns
  // whether there was anything to wait for. The operation counts as submitted once End is called; where several are
  // begun before one ends, all count once the last of them has ended.
  Result<bool> Begin(int stream, std::span<const Touch> touches);
  void End(int stream);

  // Record gives an event behind all that was submitted to the stream, TakeEvent one that nobody has recorded yet.
  // Both are valid until the next Drained.
  Result<CudaEvent> Record(int stream);
  Result<CudaEvent> TakeEvent(int stream);

  // The thread that submits to the stream calls this when it has waited for all that is on it.
  void HostWaited(int stream);
  // The host has waited for all that is on these streams, and nobody uses events of theirs any more.
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
