// A stream-ordered pool in the manner of RMM: a list of free memory per stream. A stream takes from its own list, then
// from the first other one that has enough, waiting for that stream's last free, then merges the lists of the others
// into its own, then lets the pool double.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "alloc/allocator.h"

namespace ebbtide::alloc {

class RmmAllocator final : public Allocator {
 public:
  // It takes no Streams: it never asks how far they have got.
  explicit RmmAllocator(DeviceMemory& device) : device_(&device) {}

  std::optional<Block> Allocate(Bytes bytes, StreamId stream) override;
  void Free(BlockId block) override;
  // RMM leaves it to the program to free on a stream that comes after all uses. Here the freeing stream is taken to
  // wait for the other, which is counted.
  void RecordStream(BlockId block, StreamId stream) override;
  // The pool keeps what it has.
  void EmptyCache() override {}
  const Usage& usage() const override { return usage_; }
  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override;

  std::int64_t waits() const { return waits_; }

 private:
  using FreeList = std::map<Address, Bytes>;
  struct Held {
    Address address = 0;
    Bytes size = 0;
    StreamId stream;
  };

  FreeList& ListOf(StreamId stream);
  static FreeList::iterator BestFit(FreeList& list, Bytes size);
  void Add(FreeList& list, Address address, Bytes size);
  Block Take(FreeList& from, FreeList::iterator piece, Bytes size, StreamId stream);
  bool Grow(Bytes size, StreamId stream);

  DeviceMemory* device_;
  Usage usage_;
  std::vector<FreeList> lists_;  // by stream
  std::set<Address> heads_;      // of what came from the device: pieces are not joined across them
  std::vector<Held> held_;       // by block
  std::vector<std::int32_t> unused_;
  std::int64_t waits_ = 0;
};

}  // namespace ebbtide::alloc
