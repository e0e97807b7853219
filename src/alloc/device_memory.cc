// Addresses are given from the top down, the highest gap that fits first, as Linux does and as addresses in recordings
// look; what drivers do they do not say.
#include "alloc/device_memory.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace ebbtide::alloc {
namespace {

constexpr Address kFirst = 512;
constexpr Bytes kSpace = Bytes{1} << 61;    // for recorded addresses
constexpr Address kTop = Address{1} << 56;  // below which we choose

Bytes RoundUp(Bytes bytes) {
  return (bytes + DeviceMemory::kGranule - 1) / DeviceMemory::kGranule * DeviceMemory::kGranule;
}

}  // namespace

DeviceMemory::DeviceMemory(const Options& options) : options_(options) { gaps_.emplace(kFirst, kSpace); }

bool DeviceMemory::Take(Bytes bytes) {
  if (!Charge(bytes)) return false;
  Log(bytes);
  return true;
}

bool DeviceMemory::Charge(Bytes bytes) {
  if (bytes > capacity() - used_) return false;
  used_ += bytes;
  return true;
}

void DeviceMemory::Give(Bytes bytes) {
  assert(bytes <= used_);
  used_ -= bytes;
}

std::optional<Address> DeviceMemory::Allocate(Bytes bytes) {
  if (bytes > kTooLarge) return std::nullopt;
  const Bytes rounded = RoundUp(bytes);
  if (!Charge(rounded)) return std::nullopt;
  const std::optional<Address> address = Find(bytes, rounded);
  if (address) {
    Claim(*address, {rounded, rounded});
    Log(bytes);
  } else {
    Give(rounded);
  }
  return address;
}

void DeviceMemory::Free(Address address) { Give(Release(address).physical); }

std::optional<Address> DeviceMemory::Reserve(Bytes bytes) {
  if (bytes > kTooLarge) return std::nullopt;
  const std::optional<Address> address = Find(bytes, RoundUp(bytes));
  if (address) Claim(*address, {RoundUp(bytes), 0});
  return address;
}

void DeviceMemory::Unreserve(Address address) { Release(address); }

bool DeviceMemory::Place(Address address, Bytes bytes) {
  if (!IsFree(address, bytes) || !Charge(bytes)) return false;
  Claim(address, {bytes, bytes});
  return true;
}

std::optional<Address> DeviceMemory::Find(Bytes requested, Bytes rounded) {
  if (!expected_.empty()) {
    if (const std::optional<Address> address = Expected(requested, rounded)) return address;
  }
  for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
    const auto [begin, size] = *gap;
    const Address end = std::min(begin + static_cast<Address>(size), kTop);
    if (end < begin + static_cast<Address>(rounded)) continue;
    const Address aligned = (end - static_cast<Address>(rounded)) / kGranule * kGranule;
    if (aligned >= begin) return aligned;
  }
  return std::nullopt;
}

// Addresses that are taken by now (the replay and the recording have parted) are passed over.
std::optional<Address> DeviceMemory::Expected(Bytes requested, Bytes rounded) {
  const auto found = expected_.find(requested);
  if (found == expected_.end()) return std::nullopt;
  std::deque<Address>& addresses = found->second;
  while (!addresses.empty()) {
    const Address address = addresses.front();
    addresses.pop_front();
    if (IsFree(address, requested)) return IsFree(address, rounded) ? std::optional(address) : std::nullopt;
  }
  return std::nullopt;
}

bool DeviceMemory::IsFree(Address address, Bytes bytes) const {
  auto gap = gaps_.upper_bound(address);
  if (bytes <= 0 || gap == gaps_.begin()) return false;
  --gap;
  const Address offset = address - gap->first;
  return offset <= static_cast<Address>(gap->second) && bytes <= gap->second - static_cast<Bytes>(offset);
}

void DeviceMemory::Claim(Address address, Range range) {
  const auto gap = std::prev(gaps_.upper_bound(address));
  const auto [begin, size] = *gap;
  gaps_.erase(gap);
  const Bytes before = static_cast<Bytes>(address - begin);
  const Bytes after = size - before - range.bytes;
  if (before > 0) gaps_.emplace(begin, before);
  if (after > 0) gaps_.emplace(address + static_cast<Address>(range.bytes), after);
  ranges_.emplace(address, range);
}

DeviceMemory::Range DeviceMemory::Release(Address address) {
  const auto found = ranges_.find(address);
  assert(found != ranges_.end());
  const Range range = found->second;
  ranges_.erase(found);
  auto [gap, inserted] = gaps_.emplace(address, range.bytes);
  assert(inserted);
  const auto next = std::next(gap);
  if (next != gaps_.end() && gap->first + static_cast<Address>(gap->second) == next->first) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap != gaps_.begin()) {
    const auto before = std::prev(gap);
    if (before->first + static_cast<Address>(before->second) == gap->first) {
      before->second += gap->second;
      gaps_.erase(gap);
    }
  }
  return range;
}

}  // namespace ebbtide::alloc
