// PyTorch's allocator with expandable_segments:True: a range of addresses per stream and pool, larger than the device,
// into which pages are mapped where they are needed and out of which free ones are given back.
#pragma once

#include "alloc/pytorch_blocks.h"

namespace ebbtide::alloc {

class PytorchExpandableAllocator final : public PytorchBlocks {
 public:
  PytorchExpandableAllocator(const PytorchOptions& options, DeviceMemory& device, Streams& streams)
      : PytorchBlocks(options, device, streams) {}

  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override;

 private:
  PytorchExpandableAllocator(const PytorchExpandableAllocator& other, DeviceMemory& device, Streams& streams)
      : PytorchBlocks(other, device, streams), ranges_(other.ranges_) {}

  struct Range {
    Address begin = 0;
    Bytes page = 0;
  };

  Index FindFree(const Request& request) override;
  Index Grow(const Request& request) override;
  bool ReleaseOversize(const Request&) override { return false; }
  void CollectGarbage() override {}  // expandable blocks are passed over
  void ReleaseCached() override;
  bool ShouldSplit(const Node& node, Bytes size) const override { return node.size - size >= kQuantum; }

  Bytes SizeItCanGrowTo(Index index) const;
  bool HasRoom(Index first, Bytes size) const;
  Index FindRoom(const Request& request);
  Index NewRange(const Request& request);
  bool Map(Index index, Bytes size);
  void Unmap(Index index);
  Index NewPiece(Index like, Address address, Bytes size, bool mapped);

  std::vector<Range> ranges_;
};

}  // namespace ebbtide::alloc
