// TensorFlow's allocator, BFC: best fit with coalescing over regions that it takes from the device and keeps.
#pragma once

#include <array>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "alloc/allocator.h"

namespace ebbtide::alloc {

struct BfcOptions {
  bool allow_growth = false;      // regions as they are needed; else one region of `limit` at once
  Bytes limit = 0;                // what it may hold; 0: all that is free when it is made
  Bytes first_region = 2 * kMiB;  // with growth
  Bytes most_waste = 128 * kMiB;  // a chunk that exceeds the request by so much is split, however small its half is
};

// One compute stream: what is freed may be used by later work at once. Regions are never given back.
class BfcAllocator final : public Allocator {
 public:
  BfcAllocator(const BfcOptions& options, DeviceMemory& device);

  std::optional<Block> Allocate(Bytes bytes, StreamId stream) override;
  void Free(BlockId block) override;
  void RecordStream(BlockId /*block*/, StreamId /*stream*/) override {}
  void EmptyCache() override {}
  const Usage& usage() const override { return usage_; }
  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override;

  // Chunks tile each region, no two free ones side by side. For tests.
  bool IsValid() const;

 private:
  struct Chunk {
    Address address = 0;
    Bytes bytes = 0;
    int previous = -1, next = -1;  // neighbours in the region
    bool is_free = true;
  };
  using FreeChunk = std::pair<Bytes, Address>;  // in the order in which they are tried

  bool Extend(Bytes bytes);
  int NewChunk(const Chunk& chunk);
  int FindFree(Bytes bytes);
  void Split(int chunk, Bytes bytes);
  void Join(int chunk, int next);
  void AddFree(int chunk);
  void RemoveFree(int chunk);
  Chunk& At(int chunk) { return chunks_[static_cast<std::size_t>(chunk)]; }

  BfcOptions options_;
  DeviceMemory* device_;
  Usage usage_;
  Bytes region_;  // size of the next one
  std::vector<Chunk> chunks_;
  std::vector<int> unused_;   // of chunks_
  std::vector<int> regions_;  // the first chunk of each
  std::map<FreeChunk, int> free_;
};

}  // namespace ebbtide::alloc
