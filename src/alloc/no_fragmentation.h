// The bound beside the models: an allocator that takes exactly what is in use, from the device, at once. No allocator
// that cannot move blocks needs less. Blocks that other streams still use count until those streams are done.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "alloc/allocator.h"

namespace ebbtide::alloc {

class NoFragmentationAllocator final : public Allocator {
 public:
  NoFragmentationAllocator(DeviceMemory& device, Streams& streams) : device_(&device), streams_(&streams) {}

  std::optional<Block> Allocate(Bytes bytes, StreamId stream) override;
  void Free(BlockId block) override;
  void RecordStream(BlockId block, StreamId stream) override;
  void EmptyCache() override { Settle(true); }
  const Usage& usage() const override { return usage_; }
  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override;

 private:
  struct Held {
    Bytes bytes = 0;
    StreamId stream;
  };
  struct Leaving {
    Bytes bytes = 0;
    std::vector<Event> events;
  };

  void Settle(bool wait);
  void Give(Bytes bytes);

  DeviceMemory* device_;
  Streams* streams_;
  Usage usage_;
  std::vector<Held> held_;
  std::vector<std::int32_t> unused_;
  std::unordered_map<std::int32_t, std::vector<StreamId>> uses_;
  std::deque<Leaving> leaving_;
  Address next_ = Address{1} << 45;  // addresses are never used again
};

}  // namespace ebbtide::alloc
