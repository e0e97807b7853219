// One stream: its queue, its thread, its place on the virtual clock.
#include "phantom/core/stream.h"

#include <algorithm>
#include <chrono>

#include "phantom/core/capture.h"
#include "phantom/core/declare.h"
#include "phantom/core/device.h"
#include "phantom/core/mix.h"

namespace ebbtide::phantom {

bool Position::Reached() const {
  if (!stream || stream->ReachedNumber(number)) return true;
  return stream->TrySettle() && stream->ReachedNumber(number);
}

void Position::Wait() const {
  if (stream) stream->WaitForNumber(number);
}

Stream::Stream(Device& device, int gpu, int id, unsigned flags, int priority, bool is_legacy)
    : device_(device), gpu_(gpu), id_(id), flags_(flags), priority_(priority), is_legacy_(is_legacy) {}

bool Stream::ReachedNumber(std::uint64_t number) const { return completed_.load(std::memory_order_acquire) >= number; }

bool Stream::Idle() const { return ReachedNumber(submitted_.load(std::memory_order_acquire)); }

void Stream::Settled(const std::shared_ptr<Pending>& pending) {
  std::lock_guard lock(mutex_);
  if (pending_ != pending) return;
  ready_ = std::max(ready_, pending->end());
  completed_.store(submitted_.load(std::memory_order_relaxed), std::memory_order_release);
  pending_ = nullptr;
  has_pending_.store(false, std::memory_order_release);
  changed_.notify_all();
}

void Stream::Settle() {
  if (!has_pending_.load(std::memory_order_acquire)) return;
  std::shared_ptr<Pending> pending;
  {
    std::lock_guard lock(mutex_);
    pending = pending_;
  }
  if (!pending) return;
  pending->Wait();
  Settled(pending);
}

bool Stream::TrySettle() {
  if (!has_pending_.load(std::memory_order_acquire)) return true;
  std::shared_ptr<Pending> pending;
  {
    std::lock_guard lock(mutex_);
    pending = pending_;
  }
  if (!pending) return true;
  if (!pending->Try()) return false;
  Settled(pending);
  return true;
}

void Stream::Submit(std::shared_ptr<Pending> pending) {
  Settle();
  Finish();
  std::lock_guard lock(mutex_);
  if (capture_) return;
  submitted_.fetch_add(1, std::memory_order_release);
  pending_ = std::move(pending);
  has_pending_.store(true, std::memory_order_release);
}

Nanos Stream::Ready() {
  Settle();
  std::unique_lock order = device_.streams.Order(*this);
  std::lock_guard lock(mutex_);
  return std::max(ready_, device_.host.now());
}

bool Stream::Query() {
  TrySettle();
  std::unique_lock order = device_.streams.Order(*this);
  std::unique_lock lock(mutex_);
  if (!Idle()) return false;
  if (device_.races) QueriesOrder() ? device_.races->HostSynchronized(id_) : device_.races->HostSawStream(id_);
  return true;
}

bool Stream::IsDone() {
  TrySettle();
  std::unique_lock order = device_.streams.Order(*this);
  std::unique_lock lock(mutex_);
  return Idle();
}

void Stream::WaitForNumber(std::uint64_t number) {
  if (ReachedNumber(number)) return;
  Settle();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ReachedNumber(number); });
}

void Stream::Submit(Operation operation) {
  Settle();
  std::unique_lock order = device_.streams.Order(*this);
  std::unique_lock lock(mutex_);
  if (capture_) [[unlikely]] {
    capture_after_ = {capture_->Add(std::move(operation), capture_after_)};
    return;
  }
  if (RaceChecker* races = device_.races.get())
    races->Operation(id_, operation.name, CurrentFrame(), operation.accesses);
  Nanos now = device_.host.now();
  Nanos begin = std::max(ready_, now);
  if (operation.engine) begin = operation.engine->Occupy(begin, operation.duration, now);
  ready_ = begin + operation.duration;
  Append(lock, std::move(operation.work), operation.at_once, {});
}

void Stream::Extend(Nanos duration) {
  std::lock_guard lock(mutex_);
  if (!capture_) {
    ready_ = std::max(ready_, device_.host.now()) + duration;
  } else if (!capture_after_.empty()) {
    const_cast<GraphNode*>(capture_after_.back())->operation.duration += duration;
  }
}

// Returns the number of the operation.
std::uint64_t Stream::Append(std::unique_lock<std::mutex>&, std::function<void()> work, bool at_once, Position after) {
  std::uint64_t number = submitted_.load(std::memory_order_relaxed) + 1;
  bool may_run = (!work || at_once) && !after.stream && !device_.config.always_queued();
  if (may_run && completed_.load(std::memory_order_acquire) == number - 1) {
    if (work) work();
    submitted_.store(number, std::memory_order_release);
    completed_.store(number, std::memory_order_release);
    return number;
  }
  submitted_.store(number, std::memory_order_release);
  queue_.push_back({std::move(work), std::move(after), number, ready_});
  if (!served_) {
    served_ = true;
    std::thread([self = shared_from_this()] { self->Serve(); }).detach();
  }
  changed_.notify_all();
  return number;
}

Code Stream::WaitFor(const Mark& mark) {
  Settle();
  if (mark.pending) mark.position.Wait();
  std::unique_lock order = device_.streams.Order(*this);
  std::unique_lock lock(mutex_);
  if (capture_ || mark.capture) [[unlikely]]
    return WaitInCapture(mark);
  WaitForLocked(lock, mark);
  return Code::kSuccess;
}

Code Stream::WaitInCapture(const Mark& mark) {
  if (!mark.capture || (capture_ && capture_ != mark.capture)) {
    capture_->Invalidate();
    return Code::kCaptureIsolation;
  }
  if (!capture_) {
    if (mark.capture->ended()) return Code::kCapturedEvent;
    capture_ = mark.capture;
    capture_->Join(this);
  }
  for (const GraphNode* node : mark.nodes)
    if (std::find(capture_after_.begin(), capture_after_.end(), node) == capture_after_.end())
      capture_after_.push_back(node);
  return Code::kSuccess;
}

bool Stream::EnterCapture(const std::shared_ptr<Capture>& capture, const std::vector<const GraphNode*>& after) {
  std::lock_guard lock(mutex_);
  if (capture_) return false;
  capture_ = capture;
  capture_after_ = after;
  capture->Join(this);
  return true;
}

void Stream::LeaveCapture() {
  std::lock_guard lock(mutex_);
  capture_ = nullptr;
  capture_after_.clear();
}

std::pair<std::shared_ptr<Capture>, std::vector<const GraphNode*>> Stream::CapturePlace() {
  std::lock_guard lock(mutex_);
  return {capture_, capture_after_};
}

void Stream::SetCapturePlace(const std::vector<const GraphNode*>& after) {
  std::lock_guard lock(mutex_);
  capture_after_ = after;
}

bool Stream::AppendToCapture(const Graph& graph) {
  std::lock_guard lock(mutex_);
  if (!capture_) return false;
  capture_after_ = capture_->Append(graph, capture_after_);
  return true;
}

void Stream::WaitForLocked(std::unique_lock<std::mutex>& lock, const Mark& mark) {
  if (device_.races) device_.races->StreamWaits(id_, mark.clock);
  ready_ = std::max(ready_, mark.Time());
  if (mark.position.stream.get() != this && !mark.position.Reached()) Append(lock, {}, false, mark.position);
}

Mark Stream::Record() {
  std::unique_lock order = device_.streams.Order(*this);
  std::unique_lock lock(mutex_);
  return RecordLocked();
}

Mark Stream::RecordLocked() {
  if (capture_) [[unlikely]]
    return {.position = {}, .time = 0, .clock = {}, .capture = capture_, .nodes = capture_after_};
  Mark mark{{shared_from_this(), submitted_.load(std::memory_order_relaxed)}, std::max(ready_, device_.host.now()), {}};
  mark.pending = pending_;
  if (device_.races) mark.clock = device_.races->Recorded(id_);
  return mark;
}

void Stream::Synchronize() { WaitForAll(true); }

void Stream::Finish() { WaitForAll(false); }

void Stream::WaitForAll(bool is_promise) {
  Nanos ready = 0;
  std::uint64_t number = 0;
  Settle();
  {
    std::unique_lock order = device_.streams.Order(*this);
    std::unique_lock lock(mutex_);
    ready = ready_;
    number = submitted_.load(std::memory_order_relaxed);
    if (is_promise && device_.races) device_.races->HostSynchronized(id_);
  }
  WaitForNumber(number);
  device_.host.Reach(ready);
}

void Stream::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Stream::Serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) {  // closed; a wait for it may still put something in, which then starts another thread
      served_ = false;
      return;
    }
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    entry.after.Wait();
    Delay(entry);
    if (entry.work) entry.work();
    entry.work = nullptr;  // what it holds is let go before the operation counts as over
    lock.lock();
    completed_.store(entry.number, std::memory_order_release);
    changed_.notify_all();
  }
}

void Stream::Delay(const Entry& entry) const {
  const Config& config = device_.config;
  if (config.jitter > 0) {
    std::uint64_t mixed = MixBits(MixBits(config.seed, static_cast<std::uint64_t>(id_)), entry.number);
    std::this_thread::sleep_for(std::chrono::nanoseconds(mixed % static_cast<std::uint64_t>(config.jitter + 1)));
  }
  if (config.real_time) std::this_thread::sleep_until(device_.start + std::chrono::nanoseconds(entry.end));
}

Code SubmitHostFunction(Stream& stream, std::function<void()> function) {
  TheDevice().statistics.host_functions.fetch_add(1, std::memory_order_relaxed);
  stream.Submit({.name = "host function", .work = std::move(function), .kind = OperationKind::kHostFunction});
  return Code::kSuccess;
}

}  // namespace ebbtide::phantom
