// PyTorch's own allocator (c10's CUDACachingAllocator of torch 2.15) without expandable segments: one cudaMalloc per
// segment, kept until the cache is emptied, the device runs out, or garbage is collected.
#pragma once

#include "alloc/pytorch_blocks.h"

namespace ebbtide::alloc {

class PytorchAllocator final : public PytorchBlocks {
 public:
  PytorchAllocator(const PytorchOptions& options, DeviceMemory& device, Streams& streams)
      : PytorchBlocks(options, device, streams) {}

  std::optional<std::vector<BlockId>> Restore(const std::vector<InitialSegment>& segments) override;
  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override;

 private:
  PytorchAllocator(const PytorchAllocator& other, DeviceMemory& device, Streams& streams)
      : PytorchBlocks(other, device, streams) {}

  Index FindFree(const Request& request) override;
  Index Grow(const Request& request) override;
  bool ReleaseOversize(const Request& request) override;
  void CollectGarbage() override;
  void ReleaseCached() override;
  bool ShouldSplit(const Node& node, Bytes size) const override;

  static bool IsWhole(const Node& node) { return node.previous == kNone && node.next == kNone; }
  void ReleaseSegment(Index index);
};

}  // namespace ebbtide::alloc
