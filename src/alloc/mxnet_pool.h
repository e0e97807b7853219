// MXNet's pooled storage managers: freed blocks wait in buckets of one size each and are never split or joined.
#pragma once

#include <map>
#include <vector>

#include "alloc/allocator.h"

namespace ebbtide::alloc {

struct MxnetPoolOptions {
  enum class Type { kNaive, kRound };

  Type type = Type::kNaive;          // MXNET_GPU_MEM_POOL_TYPE; Round: sizes are powers of two up to the cutoff
  std::int64_t reserve_percent = 5;  // MXNET_GPU_MEM_POOL_RESERVE: of the device, to be left to others
  Bytes page = 4 * kKiB;             // MXNET_GPU_MEM_POOL_PAGE_SIZE: least block
  Bytes large = 2 * kMiB;            // Naive: larger blocks are multiples of this
  Bytes cutoff = 16 * kMiB;          // Round: larger blocks are multiples of this
};

// A block that waits may be taken by any stream: the host waits for its last uses. What would eat into the reserve
// makes the pool give all waiting blocks back to the device first.
class MxnetPoolAllocator final : public Allocator {
 public:
  MxnetPoolAllocator(const MxnetPoolOptions& options, DeviceMemory& device) : options_(options), device_(&device) {}

  std::optional<Block> Allocate(Bytes bytes, StreamId stream) override;
  void Free(BlockId block) override;
  void RecordStream(BlockId /*block*/, StreamId /*stream*/) override {}
  void EmptyCache() override;
  const Usage& usage() const override { return usage_; }
  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override;

  // What a request gets.
  Bytes Rounded(Bytes bytes) const;

 private:
  struct Held {
    Bytes bytes = 0;
    Address address = 0;
  };
  bool TakeFromDevice(Bytes size);

  MxnetPoolOptions options_;
  DeviceMemory* device_;
  Usage usage_;
  std::vector<Held> held_;                              // by block id
  std::map<Bytes, std::vector<std::int32_t>> waiting_;  // block ids by size, the last freed one last
  std::vector<std::int32_t> unused_;                    // ids whose memory the device has back
  Address next_ = Address{1} << 45;                     // addresses of the device's are never used again
};

}  // namespace ebbtide::alloc
