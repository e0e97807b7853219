// The device under an allocator: how much memory there is, and at which addresses the driver places what it gives.
// An allocator's choices can depend on addresses (ties of a best fit), so a replay may dictate the recorded ones.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/units.h"

namespace ebbtide::alloc {

using Address = std::uint64_t;

class DeviceMemory {
 public:
  // The driver gives memory in multiples of this.
  static constexpr Bytes kGranule = 2 * kMiB;

  struct Options {
    Bytes total = kTooLarge;  // what the driver reports; fractions refer to it
    Bytes taken = 0;          // by the context and by others, for good
  };

  DeviceMemory() : DeviceMemory(Options()) {}
  explicit DeviceMemory(const Options& options);

  // cudaMalloc: memory with addresses; nullopt: not that much is free, or no addresses are.
  std::optional<Address> Allocate(Bytes bytes);
  void Free(Address address);

  // cuMemCreate: memory without addresses. False: not that much is free, and nothing was taken.
  bool Take(Bytes bytes);
  void Give(Bytes bytes);
  // cuMemAddressReserve: addresses without memory.
  std::optional<Address> Reserve(Bytes bytes);
  void Unreserve(Address address);

  // The next Allocate or Reserve of exactly so many bytes is placed there, unless the addresses are taken then. Several
  // expectations for one size are met in their order.
  void ExpectPlacement(Bytes bytes, Address address) { expected_[bytes].push_back(address); }
  // Memory that is there before the first request. False: it overlaps another, or goes beyond the capacity.
  bool Place(Address address, Bytes bytes);

  // From now on log() has one entry, its bytes, for every Allocate or Take that succeeds.
  void KeepLog() { keeps_log_ = true; }
  const std::vector<Bytes>& log() const { return log_; }

  Bytes total() const { return options_.total; }
  Bytes capacity() const { return options_.total - options_.taken; }
  Bytes used() const { return used_; }

 private:
  struct Range {
    Bytes bytes = 0;     // of addresses
    Bytes physical = 0;  // of memory behind them, charged here
  };

  void Log(Bytes bytes) {
    if (keeps_log_) log_.push_back(bytes);
  }
  bool Charge(Bytes bytes);
  std::optional<Address> Find(Bytes requested, Bytes rounded);
  std::optional<Address> Expected(Bytes requested, Bytes rounded);
  bool IsFree(Address address, Bytes bytes) const;
  void Claim(Address address, Range range);
  Range Release(Address address);

  Options options_;
  Bytes used_ = 0;
  bool keeps_log_ = false;
  std::vector<Bytes> log_;
  std::map<Address, Range> ranges_;                          // disjoint, by address
  std::map<Address, Bytes> gaps_;                            // between them
  std::unordered_map<Bytes, std::deque<Address>> expected_;  // by bytes, in order
};

}  // namespace ebbtide::alloc
