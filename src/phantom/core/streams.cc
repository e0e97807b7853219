// The set of streams, and what the legacy default stream means for the others.
#include <algorithm>

#include "phantom/core/device.h"
#include "phantom/core/stream.h"

namespace ebbtide::phantom {
namespace {

constexpr std::uintptr_t kLegacyHandle = 1;
constexpr std::uintptr_t kPerThreadHandle = 2;

}  // namespace

Streams::Streams(Device& device) : device_(device), blocking_(device.gpus.size()) {
  for (int gpu = 0; gpu < device_.gpu_count(); ++gpu) {
    if (device_.races) device_.races->StreamCreated();
    legacy_.push_back(std::make_shared<Stream>(device_, gpu, gpu, 0, 0, true));
  }
}

std::shared_ptr<Stream> Streams::Create(unsigned flags, int priority) {
  std::int64_t number = created_.fetch_add(1, std::memory_order_relaxed) + 1;
  std::lock_guard lock(mutex_);
  int id = device_.races ? device_.races->StreamCreated() : static_cast<int>(number) + device_.gpu_count() - 1;
  auto stream = std::make_shared<Stream>(device_, CurrentGpu(), id, flags, priority);
  if (!(flags & Stream::kNonBlocking))
    blocking_[static_cast<std::size_t>(stream->gpu())].fetch_add(1, std::memory_order_acq_rel);
  streams_.emplace(stream.get(), stream);
  return stream;
}

std::shared_ptr<Stream> Streams::OfThread() {
  // It is closed with its thread. Threads that outlive the device's users keep it; nobody else does.
  struct Owner {
    std::vector<std::shared_ptr<Stream>> by_gpu;
    Streams* streams = nullptr;
    ~Owner() {
      for (const auto& stream : by_gpu)
        if (stream) streams->Destroy(stream.get());
    }
  };
  thread_local Owner owner;
  owner.streams = this;
  owner.by_gpu.resize(legacy_.size());
  std::shared_ptr<Stream>& stream = owner.by_gpu[static_cast<std::size_t>(CurrentGpu())];
  if (!stream) stream = Create(0, 0);
  return stream;
}

std::shared_ptr<Stream> Streams::Find(const void* handle) {
  auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value == 0 || value == kLegacyHandle) return legacy_[static_cast<std::size_t>(CurrentGpu())];
  if (value == kPerThreadHandle) return OfThread();
  std::lock_guard lock(mutex_);
  auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second;
}

bool Streams::Destroy(const void* handle) {
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard lock(mutex_);
    auto found = streams_.find(handle);
    if (found == streams_.end()) return false;
    stream = std::move(found->second);
    streams_.erase(found);
    closing_.push_back(stream);
    ForgetClosed();
  }
  if (device_.races) device_.races->StreamDestroyed(stream->id());
  stream->Close();
  return true;
}

void Streams::ForgetClosed() {
  std::erase_if(closing_, [&](const auto& stream) {
    if (!stream->Idle()) return false;
    if (!(stream->flags() & Stream::kNonBlocking))
      blocking_[static_cast<std::size_t>(stream->gpu())].fetch_sub(1, std::memory_order_acq_rel);
    return true;
  });
}

std::vector<std::shared_ptr<Stream>> Streams::All() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Stream>> all = legacy_;
  for (const auto& [handle, stream] : streams_) all.push_back(stream);
  ForgetClosed();
  all.insert(all.end(), closing_.begin(), closing_.end());
  return all;
}

std::unique_lock<std::mutex> Streams::Order(Stream& stream) {
  const auto gpu = static_cast<std::size_t>(stream.gpu());
  if ((stream.flags() & Stream::kNonBlocking) || blocking_[gpu].load(std::memory_order_acquire) == 0) return {};
  std::unique_lock order(order_mutex_);
  auto wait_for = [&](Stream& other) {
    Mark mark;
    other.Settle();
    {
      std::lock_guard lock(other.mutex_);
      if (other.capture_) return;  // what it captures is not done
      mark = other.RecordLocked();
    }
    std::unique_lock lock(stream.mutex_);
    if (!stream.capture_) stream.WaitForLocked(lock, mark);
  };
  if (stream.is_legacy()) {
    for (const auto& other : All())
      if (other.get() != &stream && other->gpu() == stream.gpu() && !(other->flags() & Stream::kNonBlocking))
        wait_for(*other);
  } else {
    wait_for(*legacy_[gpu]);
  }
  return order;
}

Nanos Streams::Ready() {
  Nanos last = device_.host.now();
  for (const auto& stream : All()) {
    std::lock_guard lock(stream->mutex_);
    last = std::max(last, stream->ready_);
  }
  return last;
}

void Streams::SynchronizeAll(int gpu) {
  for (const auto& stream : All())
    if (stream->gpu() == gpu) stream->Synchronize();
  if (device_.races && device_.gpu_count() == 1) device_.races->DeviceSynchronized();
}

}  // namespace ebbtide::phantom
