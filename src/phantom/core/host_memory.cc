// Pinned memory is anonymous pages: a host buffer of the size of a GPU costs nothing while only zeros go into it.
#include "phantom/core/host_memory.h"

#include <sys/mman.h>

#include <cstring>

namespace ebbtide::phantom {
namespace {

constexpr Bytes kHostPage = 4096;
constexpr Bytes kWorthGivingBack = 16 * kHostPage;

Address AddressOf(const void* pointer) { return reinterpret_cast<Address>(pointer); }

Bytes WholePages(Bytes bytes) { return (bytes + kHostPage - 1) / kHostPage * kHostPage; }

}  // namespace

void HostMemory::Count(Bytes change) {
  Bytes now = pinned_.fetch_add(change, std::memory_order_relaxed) + change;
  Bytes peak = peak_.load(std::memory_order_relaxed);
  while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

Code HostMemory::Allocate(Bytes bytes, RangeKind kind, unsigned flags, void*& out) {
  if (bytes <= 0) return Code::kInvalidValue;
  if (bytes > kTooLarge) return Code::kOutOfMemory;
  void* at =
      mmap(nullptr, WholePages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return Code::kOutOfMemory;
  space_.Insert({.begin = AddressOf(at), .size = bytes, .kind = kind, .flags = flags});
  if (kind == RangeKind::kPinned) Count(bytes);
  out = at;
  return Code::kSuccess;
}

Code HostMemory::Free(void* pointer, RangeKind kind) {
  std::optional<Range> range = space_.Erase(AddressOf(pointer), kind);
  if (!range) return Code::kInvalidValue;
  if (kind == RangeKind::kPinned) Count(-range->size);
  munmap(pointer, WholePages(range->size));
  return Code::kSuccess;
}

Code HostMemory::Register(void* pointer, Bytes bytes, unsigned flags) {
  if (!pointer || bytes <= 0 || bytes > kTooLarge) return Code::kInvalidValue;
  if (!space_.Insert({.begin = AddressOf(pointer), .size = bytes, .kind = RangeKind::kRegistered, .flags = flags}))
    return Code::kHostMemoryAlreadyRegistered;
  Count(bytes);
  return Code::kSuccess;
}

Code HostMemory::Unregister(void* pointer) {
  std::optional<Range> range = space_.Erase(AddressOf(pointer), RangeKind::kRegistered);
  if (!range) return Code::kHostMemoryNotRegistered;
  Count(-range->size);
  return Code::kSuccess;
}

void HostMemory::FillZero(void* pointer, Bytes bytes) const {
  std::optional<Range> range = bytes >= kWorthGivingBack ? space_.Find(AddressOf(pointer)) : std::nullopt;
  Address begin = AddressOf(pointer);
  Address end = begin + static_cast<Address>(bytes);
  if (!range || range->kind != RangeKind::kPinned || end > range->end()) {
    std::memset(pointer, 0, bytes);
    return;
  }
  Address first = (begin + kHostPage - 1) / kHostPage * kHostPage;
  Address last = end / kHostPage * kHostPage;
  std::memset(pointer, 0, first - begin);
  if (madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED) != 0)
    std::memset(reinterpret_cast<void*>(first), 0, last - first);
  std::memset(reinterpret_cast<void*>(last), 0, end - last);
}

}  // namespace ebbtide::phantom
