// A quota on any allocator: requests that would bring what it handed out above the limit fail, as if out of memory.
#pragma once

#include "alloc/allocator.h"

namespace ebbtide::alloc {

class LimitingAllocator final : public Allocator {
 public:
  // `limit` is of allocated bytes, rounding included; what rounding adds is known only once the block is there.
  LimitingAllocator(std::unique_ptr<Allocator> inner, Bytes limit) : inner_(std::move(inner)), limit_(limit) {}

  std::optional<Block> Allocate(Bytes bytes, StreamId stream) override {
    if (bytes <= limit_ - inner_->usage().allocated) {
      const std::optional<Block> block = inner_->Allocate(bytes, stream);
      if (!block || inner_->usage().allocated <= limit_) return block;
      inner_->Free(block->id);
    }
    ++refused_;
    return std::nullopt;
  }
  void Free(BlockId block) override { inner_->Free(block); }
  void RecordStream(BlockId block, StreamId stream) override { inner_->RecordStream(block, stream); }
  void EmptyCache() override { inner_->EmptyCache(); }
  std::optional<std::vector<BlockId>> Restore(const std::vector<InitialSegment>& segments) override {
    return inner_->Restore(segments);
  }
  const Usage& usage() const override { return inner_->usage(); }
  void Observe(Observer* observer) override { inner_->Observe(observer); }
  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override {
    auto clone = std::make_unique<LimitingAllocator>(inner_->CloneOnto(device, streams), limit_);
    clone->refused_ = refused_;
    return clone;
  }

  std::int64_t refused() const { return refused_; }

 private:
  std::unique_ptr<Allocator> inner_;
  Bytes limit_;
  std::int64_t refused_ = 0;
};

}  // namespace ebbtide::alloc
