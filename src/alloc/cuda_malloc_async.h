// PyTorch's backend:cudaMallocAsync: the driver's stream-ordered pool, with nothing ever trimmed but when the device
// runs out. What the driver does inside is not documented; assumed, as the phantom GPU does: it grows by multiples of
// 32 MiB, gives the smallest free block that fits, first of those whose free is over or was on the same stream, then of
// others, for which the requesting stream is made to wait.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/free_set.h"
#include "alloc/pytorch_options.h"

namespace ebbtide::alloc {

class CudaMallocAsyncAllocator final : public Allocator {
 public:
  CudaMallocAsyncAllocator(const PytorchOptions& options, DeviceMemory& device, Streams& streams);

  std::optional<Block> Allocate(Bytes bytes, StreamId stream) override;
  void Free(BlockId block) override;
  void RecordStream(BlockId block, StreamId stream) override;
  void EmptyCache() override;
  const Usage& usage() const override { return usage_; }
  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override;

  std::int64_t inserted_waits() const { return inserted_waits_; }

 private:
  using Index = std::int32_t;
  static constexpr Index kNone = -1;
  struct Node {
    Address address = 0;
    Bytes size = 0;
    Index previous = kNone, next = kNone;  // in the segment
    StreamId stream;                       // it was allocated for
    std::vector<Event> freed;              // where it was freed; empty: it never was in use
    bool allocated = false;
  };

  Node& At(Index index) { return nodes_[static_cast<std::size_t>(index)]; }
  Index NewNode();
  Index Choose(Bytes size, StreamId stream);
  bool Grow(Bytes size);
  bool IsOver(const Node& node) const;
  bool MayJoin(const Node& first, const Node& second) const;
  void Join(Index first);
  void Trim(bool wait);

  DeviceMemory* device_;
  Streams* streams_;
  Bytes limit_ = kTooLarge;
  Usage usage_;
  std::vector<Node> nodes_;
  std::vector<Index> unused_;
  FreeSet free_;
  std::map<Address, Bytes> segments_;
  std::unordered_map<Address, Index> first_of_segment_;
  std::unordered_map<Index, std::vector<StreamId>> uses_;
  std::int64_t inserted_waits_ = 0;
};

}  // namespace ebbtide::alloc
