// Stream-ordered memory: cudaMallocAsync and its pools. What the driver does inside is not documented; assumed here: a
// pool grows by multiples of 32 MiB, gives out the smallest free block that fits (steps of 512 bytes), first of those
// whose free is over or was on the same stream, then of others after a wait that it inserts. Whether a program's own
// events already order the two streams is not looked at: where they do, that wait costs nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/units.h"
#include "phantom/core/address_space.h"
#include "phantom/core/code.h"
#include "phantom/core/handles.h"
#include "phantom/core/stream.h"

namespace ebbtide::phantom {

class Pool {
 public:
  static constexpr Bytes kGrowth = 32 * kMiB;
  static constexpr Bytes kStep = 512;

  struct Usage {
    Bytes reserved = 0, reserved_high = 0;  // taken from the device
    Bytes used = 0, used_high = 0;          // given to the program
  };

  Pool(Device& device, int gpu) : device_(device), gpu_(gpu) {}
  ~Pool();

  Code Allocate(Bytes bytes, Stream& stream, const char* name, Address& out);
  // Frees in the order of `stream`. Null where all work is known to be over.
  Code Free(const Range& range, Stream* stream, const char* name);
  // Gives unused memory back to the device until no more than `keep` is reserved.
  void Trim(Bytes keep);

  int gpu() const { return gpu_; }
  Usage usage() const;
  std::uint64_t release_threshold() const { return release_threshold_; }
  // By number, as CUmemPool_attribute and cudaMemPoolAttr have them; `value` is an int or a 64-bit number.
  Code GetAttribute(int attribute, void* value) const;
  Code SetAttribute(int attribute, const void* value);

 private:
  struct Segment {
    Bytes size = 0;
    std::shared_ptr<Physical> physical;
  };
  struct Block {
    Bytes size = 0;
    Address segment = 0;
    bool is_free = true;
    Mark freed;  // where its last owner freed it
  };
  using Blocks = std::map<Address, Block>;

  bool Grow(Bytes bytes);
  Blocks::iterator Choose(Bytes bytes, const Stream& stream);
  void Join(Blocks::iterator block);
  bool MayJoin(const Block& before, const Block& after) const;

  Device& device_;
  const int gpu_;
  std::atomic<std::uint64_t> release_threshold_{0};
  std::atomic<int> follow_event_dependencies_{1};
  std::atomic<int> allow_opportunistic_{1};
  std::atomic<int> allow_internal_dependencies_{1};
  mutable std::mutex mutex_;
  std::map<Address, Segment> segments_;
  Blocks blocks_;
  std::set<std::pair<Bytes, Address>> free_;  // by size
  Usage usage_;
};

class Pools {
 public:
  explicit Pools(Device& device);

  Pool& Default(int gpu) { return *defaults_[static_cast<std::size_t>(gpu)]; }
  std::shared_ptr<Pool> Current(int gpu);
  void SetCurrent(int gpu, std::shared_ptr<Pool> pool);
  std::shared_ptr<Pool> Create(int gpu);
  std::shared_ptr<Pool> Find(const void* handle);
  bool Destroy(const void* handle);  // false: not one that Create made

  // The host has waited for something: pools give back what they hold beyond their thresholds.
  void Synchronized();
  // The device ran out: all that is unused goes back.
  void ReleaseUnused();

 private:
  friend class Pool;

  Device& device_;
  Handles<Pool> handles_;
  std::vector<std::shared_ptr<Pool>> defaults_;  // by GPU
  std::mutex mutex_;                             // of the following
  std::vector<std::shared_ptr<Pool>> current_;   // by GPU
  std::vector<std::weak_ptr<Pool>> all_;
  std::vector<std::shared_ptr<Pool>> retired_;  // destroyed by the program, with allocations that are not freed yet
  std::atomic<bool> any_memory_{false};
};

// Pool::Allocate, which also counts requests that did not fit.
Code AllocateFromPool(Device& device, Pool& pool, Bytes bytes, Stream& stream, const char* name, Address& out);
// Frees any device memory in the order of `stream`. What did not come from a pool is freed at once, after a wait.
Code FreeInOrder(Device& device, Address address, Stream& stream, const char* name);

}  // namespace ebbtide::phantom
