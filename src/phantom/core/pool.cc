// Blocks of a pool: an address-ordered map of each segment's pieces, joined when they are free for the same reason.
#include "phantom/core/pool.h"

#include <algorithm>

#include "phantom/core/api.h"
#include "phantom/core/declare.h"
#include "phantom/core/device.h"

namespace ebbtide::phantom {

Pool::~Pool() {
  for (const auto& [begin, segment] : segments_) ReleaseAddresses(begin, segment.size);
}

bool Pool::Grow(Bytes bytes) {
  Bytes size = (bytes + kGrowth - 1) / kGrowth * kGrowth;
  std::shared_ptr<Physical> physical =
      Physical::Create(device_.gpu(gpu_).ledger, device_.backing, size, Physical::Share::kPrivate);
  if (!physical) return false;
  Address begin = ReserveAddresses(size, 2 * kMiB);
  if (begin == 0) return false;
  if (device_.races) device_.races->Allocated(begin, size);
  segments_.emplace(begin, Segment{size, std::move(physical)});
  blocks_.emplace(begin, Block{size, begin, true, {}});
  free_.emplace(size, begin);
  usage_.reserved += size;
  usage_.reserved_high = std::max(usage_.reserved_high, usage_.reserved);
  device_.statistics.allocations.Add(size);
  device_.pools.any_memory_ = true;
  return true;
}

Pool::Blocks::iterator Pool::Choose(Bytes bytes, const Stream& stream) {
  Address after_a_wait = 0;
  for (auto candidate = free_.lower_bound({bytes, 0}); candidate != free_.end(); ++candidate) {
    auto found = blocks_.find(candidate->second);
    const Position& freed = found->second.freed.position;
    if (!freed.stream || freed.stream.get() == &stream || (allow_opportunistic_ && freed.Reached())) return found;
    if (after_a_wait == 0) after_a_wait = candidate->second;
  }
  return after_a_wait != 0 && allow_internal_dependencies_ ? blocks_.find(after_a_wait) : blocks_.end();
}

Code Pool::Allocate(Bytes bytes, Stream& stream, const char* name, Address& out) {
  if (bytes <= 0 || bytes > kTooLarge) return bytes <= 0 ? Code::kInvalidValue : Code::kOutOfMemory;
  Bytes size = (bytes + kStep - 1) / kStep * kStep;
  Mark freed;
  {
    std::unique_lock lock(mutex_);
    auto block = Choose(size, stream);
    if (block == blocks_.end()) {
      bool grown = Grow(size);
      if (!grown) {
        lock.unlock();
        device_.pools.ReleaseUnused();
        lock.lock();
        grown = Grow(size);
      }
      if (!grown) return Code::kOutOfMemory;
      block = Choose(size, stream);
    }
    free_.erase({block->second.size, block->first});
    if (block->second.size > size) {
      Address rest = block->first + static_cast<Address>(size);
      Bytes left = block->second.size - size;
      blocks_.emplace(rest, Block{left, block->second.segment, true, block->second.freed});
      free_.emplace(left, rest);
      block->second.size = size;
    }
    block->second.is_free = false;
    freed = std::move(block->second.freed);
    block->second.freed = {};
    usage_.used += size;
    usage_.used_high = std::max(usage_.used_high, usage_.used);
    out = block->first;
    const Segment& segment = segments_.at(block->second.segment);
    device_.space.Insert({.begin = out,
                          .size = bytes,
                          .kind = RangeKind::kPool,
                          .physical = segment.physical,
                          .offset = static_cast<Bytes>(out - block->second.segment),
                          .owner = this});
  }
  if (freed.position.stream && freed.position.stream.get() != &stream) stream.WaitFor(freed);
  stream.Submit({.name = name, .accesses = {{out, bytes, AccessKind::kAllocate}}});
  return Code::kSuccess;
}

Code Pool::Free(const Range& range, Stream* stream, const char* name) {
  if (!device_.space.Erase(range.begin, RangeKind::kPool)) return Code::kInvalidValue;
  Mark mark;
  if (stream) {
    stream->Submit({.name = name, .accesses = {{range.begin, range.size, AccessKind::kFree}}});
    mark = stream->Record();
  } else if (device_.races) {
    device_.races->Freed(range.begin, range.size, name, CurrentFrame());
  }
  std::lock_guard lock(mutex_);
  auto block = blocks_.find(range.begin);
  block->second.is_free = true;
  block->second.freed = std::move(mark);
  usage_.used -= block->second.size;
  free_.emplace(block->second.size, block->first);
  Join(block);
  return Code::kSuccess;
}

// Pieces whose frees are over are alike; so are those freed on one stream, of which the later free counts.
bool Pool::MayJoin(const Block& before, const Block& after) const {
  if (!before.is_free || !after.is_free || before.segment != after.segment) return false;
  return before.freed.position.stream == after.freed.position.stream ||
         (before.freed.position.Reached() && after.freed.position.Reached() && !device_.races);
}

void Pool::Join(Blocks::iterator block) {
  auto join_next = [&](Blocks::iterator first) {
    auto second = std::next(first);
    if (second == blocks_.end() || !MayJoin(first->second, second->second)) return;
    free_.erase({first->second.size, first->first});
    free_.erase({second->second.size, second->first});
    if (second->second.freed.position.number > first->second.freed.position.number)
      first->second.freed = std::move(second->second.freed);
    first->second.size += second->second.size;
    free_.emplace(first->second.size, first->first);
    blocks_.erase(second);
  };
  join_next(block);
  if (block != blocks_.begin()) join_next(std::prev(block));
}

void Pool::Trim(Bytes keep) {
  std::lock_guard lock(mutex_);
  for (auto segment = segments_.begin(); segment != segments_.end() && usage_.reserved > keep;) {
    auto [begin, size] = std::pair(segment->first, segment->second.size);
    auto first = blocks_.find(begin);
    auto last = blocks_.lower_bound(begin + static_cast<Address>(size));
    bool unused = std::all_of(
        first, last, [](const auto& entry) { return entry.second.is_free && entry.second.freed.position.Reached(); });
    if (!unused) {
      ++segment;
      continue;
    }
    for (auto block = first; block != last; ++block) free_.erase({block->second.size, block->first});
    blocks_.erase(first, last);
    ReleaseAddresses(begin, size);
    usage_.reserved -= size;
    device_.statistics.frees.Add(size);
    segment = segments_.erase(segment);
  }
}

Pool::Usage Pool::usage() const {
  std::lock_guard lock(mutex_);
  return usage_;
}

Code Pool::GetAttribute(int attribute, void* value) const {
  Usage usage = this->usage();
  auto number = [&](auto x) {
    *static_cast<std::uint64_t*>(value) = static_cast<std::uint64_t>(x);
    return Code::kSuccess;
  };
  auto flag = [&](int x) {
    *static_cast<int*>(value) = x;
    return Code::kSuccess;
  };
  switch (attribute) {
    case 1: return flag(follow_event_dependencies_);
    case 2: return flag(allow_opportunistic_);
    case 3: return flag(allow_internal_dependencies_);
    case 4: return number(release_threshold_.load());
    case 5: return number(usage.reserved);
    case 6: return number(usage.reserved_high);
    case 7: return number(usage.used);
    case 8: return number(usage.used_high);
    default: return Code::kInvalidValue;
  }
}

Code Pool::SetAttribute(int attribute, const void* value) {
  std::lock_guard lock(mutex_);
  switch (attribute) {
    case 1: follow_event_dependencies_ = *static_cast<const int*>(value) != 0; return Code::kSuccess;
    case 2: allow_opportunistic_ = *static_cast<const int*>(value) != 0; return Code::kSuccess;
    case 3: allow_internal_dependencies_ = *static_cast<const int*>(value) != 0; return Code::kSuccess;
    case 4: release_threshold_ = *static_cast<const std::uint64_t*>(value); return Code::kSuccess;
    default: break;
  }
  // A high mark can only be set back to the present.
  if ((attribute != 6 && attribute != 8) || *static_cast<const std::uint64_t*>(value) != 0) return Code::kInvalidValue;
  if (attribute == 6) usage_.reserved_high = usage_.reserved;
  if (attribute == 8) usage_.used_high = usage_.used;
  return Code::kSuccess;
}

Pools::Pools(Device& device) : device_(device) {
  for (int gpu = 0; gpu < device.gpu_count(); ++gpu) {
    defaults_.push_back(handles_.Create(device, gpu));
    all_.push_back(defaults_.back());
  }
  current_ = defaults_;
}

std::shared_ptr<Pool> Pools::Current(int gpu) {
  std::lock_guard lock(mutex_);
  return current_[static_cast<std::size_t>(gpu)];
}

void Pools::SetCurrent(int gpu, std::shared_ptr<Pool> pool) {
  std::lock_guard lock(mutex_);
  current_[static_cast<std::size_t>(gpu)] = std::move(pool);
}

std::shared_ptr<Pool> Pools::Create(int gpu) {
  std::shared_ptr<Pool> pool = handles_.Create(device_, gpu);
  std::lock_guard lock(mutex_);
  std::erase_if(all_, [](const auto& known) { return known.expired(); });
  all_.push_back(pool);
  return pool;
}

std::shared_ptr<Pool> Pools::Find(const void* handle) { return handles_.Find(handle); }

// Its memory goes at a later wait of the host, when its last allocation was freed.
bool Pools::Destroy(const void* handle) {
  for (const auto& pool : defaults_)
    if (handle == pool.get()) return false;
  std::shared_ptr<Pool> pool = handles_.Remove(handle);
  if (!pool) return false;
  std::lock_guard lock(mutex_);
  const auto gpu = static_cast<std::size_t>(pool->gpu());
  if (current_[gpu] == pool) current_[gpu] = defaults_[gpu];
  retired_.push_back(std::move(pool));
  return true;
}

void Pools::Synchronized() {
  if (!any_memory_.load(std::memory_order_relaxed)) return;
  std::vector<std::shared_ptr<Pool>> pools;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(retired_, [](const auto& pool) { return pool->usage().used == 0; });
    for (const auto& known : all_)
      if (auto pool = known.lock()) pools.push_back(std::move(pool));
  }
  for (const auto& pool : pools)
    pool->Trim(static_cast<Bytes>(std::min<std::uint64_t>(pool->release_threshold(), kTooLarge)));
}

void Pools::ReleaseUnused() {
  if (!any_memory_.load(std::memory_order_relaxed)) return;
  std::vector<std::weak_ptr<Pool>> pools;
  {
    std::lock_guard lock(mutex_);
    pools = all_;
  }
  for (const auto& known : pools)
    if (auto pool = known.lock()) pool->Trim(0);
}

Code AllocateFromPool(Device& device, Pool& pool, Bytes bytes, Stream& stream, const char* name, Address& out) {
  Code code = pool.Allocate(bytes, stream, name, out);
  if (code == Code::kOutOfMemory) device.statistics.out_of_memory.Add(bytes);
  return code;
}

Code FreeInOrder(Device& device, Address address, Stream& stream, const char* name) {
  std::optional<Range> range = device.space.Find(address);
  if (!range || range->begin != address) return Code::kInvalidValue;
  if (range->kind == RangeKind::kPool) return range->owner->Free(*range, &stream, name);
  return FreeDevice(reinterpret_cast<void*>(address));
}

}  // namespace ebbtide::phantom
