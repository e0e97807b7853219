// The one interface of all allocator models   ◀ start reading here
//
// A model answers as the framework's allocator would: which device memory it takes, what it keeps, when it runs out.
// It stands on a DeviceMemory and Streams, both of which the caller owns and several models may share. Not thread-safe.
// Limits, statistics and traces are decorators: limiting.h, statistics.h, tracing.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "alloc/device_memory.h"
#include "alloc/observer.h"
#include "alloc/streams.h"
#include "base/ids.h"
#include "base/units.h"

namespace ebbtide::alloc {

using BlockId = Id<struct BlockTag>;

// What a request got. The id is the model's own and is used again after Free.
struct Block {
  BlockId id;
  Address address = 0;
  Bytes bytes = 0;  // what it takes, rounding included
};

// Peaks are of every moment, also within one call.
struct Usage {
  Bytes allocated = 0, allocated_peak = 0;  // blocks that were not freed
  Bytes reserved = 0, reserved_peak = 0;    // memory taken from the device
  std::int64_t device_allocations = 0;      // how often memory was taken from the device
  std::int64_t device_frees = 0;            // and given back
  std::int64_t out_of_memory = 0;           // requests that failed

  void Allocate(Bytes bytes) {
    allocated += bytes;
    allocated_peak = std::max(allocated_peak, allocated);
  }
  void Free(Bytes bytes) { allocated -= bytes; }
  void Take(Bytes bytes) {
    reserved += bytes;
    reserved_peak = std::max(reserved_peak, reserved);
    ++device_allocations;
  }
  void Give(Bytes bytes) {
    reserved -= bytes;
    ++device_frees;
  }
};

// Whether no state of an allocator on that device could serve the request: more than there is, or no size at all.
inline bool CannotFit(Bytes bytes, const DeviceMemory& device) { return bytes < 0 || bytes > device.capacity(); }

// Device memory that a model holds before its first request (InitialSegment), cut into pieces without gaps.
struct InitialBlock {
  Address address = 0;
  Bytes bytes = 0;
  Bytes requested = 0;
  bool allocated = false;
};
struct InitialSegment {
  Address address = 0;
  Bytes bytes = 0;
  StreamId stream;
  bool small = false;  // of PyTorch's pool of small blocks
  std::vector<InitialBlock> blocks;
};

class Allocator {
 public:
  virtual ~Allocator() = default;

  // Memory for later work of `stream`. nullopt: out of memory; what the attempt gave back to the device stays there.
  // Any number may be asked for: what CannotFit names is refused before it is rounded or added to anything.
  virtual std::optional<Block> Allocate(Bytes bytes, StreamId stream) = 0;
  // Later work of the stream that the block was allocated for may have its memory. `block` must be allocated.
  virtual void Free(BlockId block) = 0;
  // Work of another stream uses the block too: once freed, its memory serves others only when that work is done, too.
  virtual void RecordStream(BlockId block, StreamId stream) = 0;
  // Gives back to the device what no block needs, as far as the framework's allocator would.
  virtual void EmptyCache() = 0;

  // A fresh allocator is put in the state that a recording began with; the ids of the allocated blocks, in order.
  // Models that do not lay out segments as PyTorch does allocate those blocks. nullopt: they do not fit the device.
  virtual std::optional<std::vector<BlockId>> Restore(const std::vector<InitialSegment>& segments);

  virtual const Usage& usage() const = 0;

  // From now on `observer` is told; null: nobody. Models that do not lay out segments as PyTorch does tell nothing.
  virtual void Observe(Observer* /*observer*/) {}

  // A copy of the whole state on copies of the device and the streams, which nobody observes.
  virtual std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const = 0;
};

inline std::optional<std::vector<BlockId>> Allocator::Restore(const std::vector<InitialSegment>& segments) {
  std::vector<BlockId> ids;
  for (const InitialSegment& segment : segments) {
    for (const InitialBlock& block : segment.blocks) {
      if (!block.allocated) continue;
      const std::optional<Block> got = Allocate(block.requested, segment.stream);
      if (!got) return std::nullopt;
      ids.push_back(got->id);
    }
  }
  return ids;
}

}  // namespace ebbtide::alloc
