// One direction of a link as a thread: copies of memory, one at a time, in the order in which they were queued.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/units.h"
#include "run/device/device.h"

namespace ebbtide::run {

class CopyThread {
 public:
  // A copy takes at least `latency` and what its bytes need at `speed`; with a speed of 0, as long as it takes.
  CopyThread(double speed, Nanos latency) : speed_(speed), latency_(latency), thread_([this] { Work(); }) {}
  ~CopyThread();
  CopyThread(const CopyThread&) = delete;
  CopyThread& operator=(const CopyThread&) = delete;

  // Returns at once. The ticket is the copy's place among all copies of this thread, from 1.
  Ticket Queue(const std::byte* from, std::byte* to, Bytes bytes);
  void Await(Ticket ticket);
  // Waits for all copies that were queued.
  void Drain();
  // When copies ran: those that are done and were not told by an earlier call.
  std::vector<CopySpan> TakeSpans();

 private:
  struct Copy {
    const std::byte* from;
    std::byte* to;
    Bytes bytes;
  };
  void Work();
  void Run(const Copy& copy) const;

  const double speed_;
  const Nanos latency_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<Copy> waiting_;
  std::vector<CopySpan> spans_;
  Ticket queued_ = 0, finished_ = 0;
  bool ending_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace ebbtide::run
