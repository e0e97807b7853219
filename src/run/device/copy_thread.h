// One direction of a link as a thread: copies of memory, one at a time, in the order in which they were queued.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/units.h"
#include "run/device/device.h"

namespace ebbtide::run {

class CopyThread {
 public:
  // A copy takes at least `latency` and what its bytes need at `speed`; with a speed of 0, as long as it takes.
  CopyThread(double speed, Nanos latency);
  // In a child by fork, where the thread is not, nothing is waited for and nothing freed.
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
  struct Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace ebbtide::run
