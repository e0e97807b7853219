// The map of ranges, and reservations by mmap without any rights.
#include "phantom/core/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>

namespace ebbtide::phantom {
namespace {

constexpr Bytes kPage = 4096;

}  // namespace

// The first range that ends after `address`.
std::map<Address, Range>::const_iterator AddressSpace::FirstAfter(Address address) const {
  auto next = ranges_.upper_bound(address);
  if (next != ranges_.begin() && std::prev(next)->second.end() > address) --next;
  return next;
}

bool AddressSpace::Insert(Range range) {
  std::unique_lock lock(mutex_);
  auto next = FirstAfter(range.begin);
  if (next != ranges_.end() && next->second.begin < range.end()) return false;
  range.id = next_id_++;
  if (observer_) observer_(range, true);
  ranges_.emplace(range.begin, std::move(range));
  return true;
}

std::optional<Range> AddressSpace::Erase(Address begin) {
  std::unique_lock lock(mutex_);
  auto found = ranges_.find(begin);
  if (found == ranges_.end()) return std::nullopt;
  Range range = std::move(found->second);
  if (observer_) observer_(range, false);
  ranges_.erase(found);
  return range;
}

std::optional<Range> AddressSpace::Erase(Address begin, RangeKind kind) {
  std::unique_lock lock(mutex_);
  auto found = ranges_.find(begin);
  if (found == ranges_.end() || found->second.kind != kind) return std::nullopt;
  Range range = std::move(found->second);
  if (observer_) observer_(range, false);
  ranges_.erase(found);
  return range;
}

void AddressSpace::SetFlags(Address begin, unsigned flags) {
  std::unique_lock lock(mutex_);
  if (auto found = ranges_.find(begin); found != ranges_.end()) found->second.flags = flags;
}

std::optional<Range> AddressSpace::Find(Address address) const {
  std::shared_lock lock(mutex_);
  auto found = FirstAfter(address);
  if (found == ranges_.end() || found->second.begin > address) return std::nullopt;
  return found->second;
}

bool AddressSpace::TryIsOnDevice(Address address) const {
  std::shared_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  auto found = FirstAfter(address);
  return found != ranges_.end() && found->second.begin <= address && found->second.on_device();
}

std::vector<Range> AddressSpace::Touched(Address begin, Bytes bytes) const {
  std::shared_lock lock(mutex_);
  std::vector<Range> out;
  Address end = begin + static_cast<Address>(bytes);
  for (auto next = FirstAfter(begin); next != ranges_.end() && next->second.begin < end; ++next)
    out.push_back(next->second);
  return out;
}

std::vector<Range> AddressSpace::Cover(Address begin, Bytes bytes) const {
  std::vector<Range> out = Touched(begin, bytes);
  Address covered = begin;
  for (const Range& range : out) {
    if (range.begin > covered) return {};
    covered = range.end();
  }
  if (covered < begin + static_cast<Address>(bytes)) return {};
  return out;
}

Address ReserveAddresses(Bytes bytes, Bytes alignment, Address hint) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  Bytes rounded = (bytes + kPage - 1) / kPage * kPage;
  alignment = std::max(alignment, kPage);
  if (hint != 0 && hint % static_cast<Address>(alignment) == 0) {
    void* at = mmap(reinterpret_cast<void*>(hint), rounded, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == reinterpret_cast<void*>(hint)) return hint;
    if (at != MAP_FAILED) munmap(at, rounded);
  }
  Bytes padded = rounded + alignment - kPage;
  if (padded < rounded) return 0;
  void* at = mmap(nullptr, padded, PROT_NONE, kFlags, -1, 0);
  if (at == MAP_FAILED) return 0;
  Address first = reinterpret_cast<Address>(at);
  Address begin = (first + alignment - 1) / alignment * alignment;
  if (begin > first) munmap(at, begin - first);
  Address end = begin + static_cast<Address>(rounded);
  if (Address last = first + static_cast<Address>(padded); last > end) munmap(reinterpret_cast<void*>(end), last - end);
  return begin;
}

void ReleaseAddresses(Address begin, Bytes bytes) {
  munmap(reinterpret_cast<void*>(begin), (bytes + kPage - 1) / kPage * kPage);
}

}  // namespace ebbtide::phantom
