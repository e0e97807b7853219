// The thread that copies, at the speed of a link.
#include "run/device/copy_thread.h"

#include <sys/prctl.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "run/device/clock.h"

namespace ebbtide::run {

CopyThread::~CopyThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.notify_one();
  thread_.join();
}

Ticket CopyThread::Queue(const std::byte* from, std::byte* to, Bytes bytes) {
  Ticket ticket;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({from, to, bytes});
    ticket = ++queued_;
  }
  work_.notify_one();
  return ticket;
}

void CopyThread::Await(Ticket ticket) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return finished_ >= ticket; });
}

void CopyThread::Drain() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return finished_ >= queued_; });
}

std::vector<CopySpan> CopyThread::TakeSpans() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

void CopyThread::Work() {
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);  // sleeps that end when they should
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Copy copy = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    const Nanos begin = Now();
    Run(copy);
    const Nanos end = Now();
    lock.lock();
    spans_.push_back({++finished_, begin, end});
    done_.notify_all();
  }
}

void CopyThread::Run(const Copy& copy) const {
  const auto begin = std::chrono::steady_clock::now();
  if (copy.bytes > 0) std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
  if (speed_ <= 0) return;
  const auto takes = static_cast<Nanos>(static_cast<double>(copy.bytes) * 1e9 / speed_) + latency_;
  std::this_thread::sleep_until(begin + std::chrono::nanoseconds(takes));
}

}  // namespace ebbtide::run
