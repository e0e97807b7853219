// The thread that copies, at the speed of a link.
#include "run/device/copy_thread.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "run/device/clock.h"

namespace ebbtide::run {

struct CopyThread::Worker {
  struct Copy {
    const std::byte* from;
    std::byte* to;
    Bytes bytes;
  };

  Worker(double speed_of_link, Nanos latency_of_link)
      : speed(speed_of_link), latency(latency_of_link), thread([this] { Work(); }) {}

  void Work() {
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);  // sleeps that end when they should
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [&] { return ending || !waiting.empty(); });
      if (waiting.empty()) return;
      const Copy copy = waiting.front();
      waiting.pop_front();
      lock.unlock();
      const Nanos begin = Now();
      Run(copy);
      const Nanos end = Now();
      lock.lock();
      spans.push_back({++finished, begin, end});
      done.notify_all();
    }
  }

  void Run(const Copy& copy) const {
    const auto begin = std::chrono::steady_clock::now();
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
    if (speed <= 0) return;
    const auto takes = static_cast<Nanos>(static_cast<double>(copy.bytes) * 1e9 / speed) + latency;
    std::this_thread::sleep_until(begin + std::chrono::nanoseconds(takes));
  }

  const double speed;
  const Nanos latency;
  const pid_t process = getpid();
  std::mutex mutex;
  std::condition_variable work, done;
  std::deque<Copy> waiting;
  std::vector<CopySpan> spans;
  Ticket queued = 0, finished = 0;
  bool ending = false;
  std::thread thread;  // the last member: it uses the others
};

CopyThread::CopyThread(double speed, Nanos latency) : worker_(std::make_unique<Worker>(speed, latency)) {}

CopyThread::~CopyThread() {
  if (worker_->process != getpid()) {
    [[maybe_unused]] const Worker* const left = worker_.release();
    return;
  }
  {
    const std::lock_guard lock(worker_->mutex);
    worker_->ending = true;
  }
  worker_->work.notify_one();
  worker_->thread.join();
}

Ticket CopyThread::Queue(const std::byte* from, std::byte* to, Bytes bytes) {
  Ticket ticket;
  {
    const std::lock_guard lock(worker_->mutex);
    worker_->waiting.push_back({from, to, bytes});
    ticket = ++worker_->queued;
  }
  worker_->work.notify_one();
  return ticket;
}

void CopyThread::Await(Ticket ticket) {
  std::unique_lock lock(worker_->mutex);
  worker_->done.wait(lock, [&] { return worker_->finished >= ticket; });
}

void CopyThread::Drain() {
  std::unique_lock lock(worker_->mutex);
  worker_->done.wait(lock, [&] { return worker_->finished >= worker_->queued; });
}

std::vector<CopySpan> CopyThread::TakeSpans() {
  const std::lock_guard lock(worker_->mutex);
  return std::exchange(worker_->spans, {});
}

}  // namespace ebbtide::run
