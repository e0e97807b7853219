// Handles, reservations and mappings. A mapping is a range of the address space; its flags are its access rights.
#include "phantom/core/vmm.h"

#include <algorithm>

namespace ebbtide::phantom {
namespace {

constexpr unsigned kNoAccess = 0;

bool IsWhole(Bytes bytes) { return bytes > 0 && bytes % Vmm::kGranularity == 0; }

}  // namespace

Code Vmm::Reserve(Bytes bytes, Bytes alignment, Address hint, Address& out) {
  if (!IsWhole(bytes) || bytes > kTooLarge || alignment < 0 || (alignment & (alignment - 1)) != 0)
    return Code::kInvalidValue;
  out = ReserveAddresses(bytes, std::max(alignment, kGranularity), hint);
  if (out == 0) return Code::kOutOfMemory;
  std::lock_guard lock(mutex_);
  reserved_.emplace(out, bytes);
  return Code::kSuccess;
}

Code Vmm::Unreserve(Address begin, Bytes bytes) {
  std::lock_guard lock(mutex_);
  auto found = reserved_.find(begin);
  if (found == reserved_.end() || found->second != bytes || !space_.Touched(begin, bytes).empty())
    return Code::kInvalidValue;
  reserved_.erase(found);
  ReleaseAddresses(begin, bytes);
  return Code::kSuccess;
}

Code Vmm::Create(Ledger& ledger, Bytes bytes, Physical::Share share, Handle& out) {
  if (!IsWhole(bytes)) return Code::kInvalidValue;
  std::shared_ptr<Physical> physical = Physical::Create(ledger, budget_, bytes, share);
  if (!physical) return Code::kOutOfMemory;
  std::lock_guard lock(mutex_);
  out = next_++;
  handles_.emplace(out, Held{std::move(physical), 1});
  return Code::kSuccess;
}

Code Vmm::Release(Handle handle) {
  std::shared_ptr<Physical> last;  // let go without the lock
  std::lock_guard lock(mutex_);
  auto found = handles_.find(handle);
  if (found == handles_.end()) return Code::kInvalidValue;
  if (--found->second.references > 0) return Code::kSuccess;
  last = std::move(found->second.physical);
  handles_.erase(found);
  return Code::kSuccess;
}

Code Vmm::Export(Handle handle, int& fd) {
  std::lock_guard lock(mutex_);
  auto found = handles_.find(handle);
  if (found == handles_.end()) return Code::kInvalidValue;
  fd = found->second.physical->Export();
  if (fd < 0)
    return found->second.physical->share() == Physical::Share::kShareable ? Code::kOperatingSystem
                                                                          : Code::kInvalidValue;
  return Code::kSuccess;
}

Code Vmm::Import(int fd, Handle& out) {
  std::shared_ptr<Physical> physical = Physical::Import(fd);
  if (!physical) return Code::kInvalidValue;
  std::lock_guard lock(mutex_);
  out = next_++;
  handles_.emplace(out, Held{std::move(physical), 1});
  return Code::kSuccess;
}

Code Vmm::Retain(Address address, Handle& out) {
  std::optional<Range> range = space_.Find(address);
  if (!range || range->kind != RangeKind::kMapped) return Code::kInvalidValue;
  std::lock_guard lock(mutex_);
  for (auto& [handle, held] : handles_) {
    if (held.physical != range->physical) continue;
    ++held.references;
    out = handle;
    return Code::kSuccess;
  }
  // Its handle was released; the mapping still holds the memory.
  out = next_++;
  handles_.emplace(out, Held{range->physical, 1});
  return Code::kSuccess;
}

Code Vmm::Describe(Handle handle, Physical::Share& share, int& gpu) {
  std::lock_guard lock(mutex_);
  auto found = handles_.find(handle);
  if (found == handles_.end()) return Code::kInvalidValue;
  share = found->second.physical->share();
  gpu = found->second.physical->gpu();
  return Code::kSuccess;
}

bool Vmm::IsReserved(Address begin, Bytes bytes) const {
  auto after = reserved_.upper_bound(begin);
  if (after == reserved_.begin()) return false;
  auto [first, size] = *std::prev(after);
  return begin + static_cast<Address>(bytes) <= first + static_cast<Address>(size);
}

Code Vmm::Map(Address begin, Bytes bytes, Bytes offset, Handle handle) {
  std::lock_guard lock(mutex_);
  auto found = handles_.find(handle);
  if (found == handles_.end() || offset != 0 || !IsWhole(bytes) || bytes > found->second.physical->size())
    return Code::kInvalidValue;
  if (begin % static_cast<Address>(kGranularity) != 0 || !IsReserved(begin, bytes)) return Code::kInvalidValue;
  Range range{.begin = begin,
              .size = bytes,
              .kind = RangeKind::kMapped,
              .flags = kNoAccess,
              .physical = found->second.physical};
  return space_.Insert(std::move(range)) ? Code::kSuccess : Code::kAlreadyMapped;
}

Code Vmm::Unmap(Address begin, Bytes bytes) {
  std::lock_guard lock(mutex_);
  std::vector<Range> ranges = space_.Cover(begin, bytes);
  if (ranges.empty() || ranges.front().begin != begin || ranges.back().end() != begin + static_cast<Address>(bytes))
    return Code::kInvalidValue;
  for (const Range& range : ranges)
    if (range.kind != RangeKind::kMapped) return Code::kInvalidValue;
  for (const Range& range : ranges) space_.Erase(range.begin, RangeKind::kMapped);
  return Code::kSuccess;
}

Code Vmm::SetAccess(Address begin, Bytes bytes, unsigned access) {
  std::lock_guard lock(mutex_);
  std::vector<Range> ranges = space_.Cover(begin, bytes);
  if (ranges.empty() || ranges.front().begin != begin || ranges.back().end() != begin + static_cast<Address>(bytes))
    return Code::kInvalidValue;
  for (const Range& range : ranges)
    if (range.kind != RangeKind::kMapped) return Code::kInvalidValue;
  for (const Range& range : ranges) space_.SetFlags(range.begin, access);
  return Code::kSuccess;
}

Code Vmm::GetAccess(Address address, unsigned& access) {
  std::optional<Range> range = space_.Find(address);
  if (!range || range->kind != RangeKind::kMapped) return Code::kInvalidValue;
  access = range->flags;
  return Code::kSuccess;
}

}  // namespace ebbtide::phantom
