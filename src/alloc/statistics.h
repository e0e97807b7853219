// What goes through any allocator, by size class and over time.
#pragma once

#include <array>
#include <bit>

#include "alloc/allocator.h"

namespace ebbtide::alloc {

class StatisticsAllocator final : public Allocator {
 public:
  struct SizeClass {
    std::int64_t requests = 0;
    Bytes requested = 0;
    Bytes rounding = 0;  // handed out beyond what was requested
  };
  struct Sample {
    Bytes allocated = 0;
    Bytes reserved = 0;
  };

  // `keeps_series`: one Sample per call.
  StatisticsAllocator(std::unique_ptr<Allocator> inner, bool keeps_series)
      : inner_(std::move(inner)), keeps_series_(keeps_series) {}

  std::optional<Block> Allocate(Bytes bytes, StreamId stream) override {
    const std::optional<Block> block = inner_->Allocate(bytes, stream);
    if (block) {
      SizeClass& size_class = classes_[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(bytes)))];
      ++size_class.requests;
      // Of a whole history, so it may be more than any device has.
      size_class.requested = CheckedAdd(size_class.requested, bytes).value_or(size_class.requested);
      size_class.rounding = CheckedAdd(size_class.rounding, block->bytes - bytes).value_or(size_class.rounding);
    }
    TakeSample();
    return block;
  }
  void Free(BlockId block) override {
    inner_->Free(block);
    TakeSample();
  }
  void RecordStream(BlockId block, StreamId stream) override { inner_->RecordStream(block, stream); }
  void EmptyCache() override {
    inner_->EmptyCache();
    TakeSample();
  }
  std::optional<std::vector<BlockId>> Restore(const std::vector<InitialSegment>& segments) override {
    return inner_->Restore(segments);
  }
  const Usage& usage() const override { return inner_->usage(); }
  void Observe(Observer* observer) override { inner_->Observe(observer); }
  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override {
    auto clone = std::make_unique<StatisticsAllocator>(inner_->CloneOnto(device, streams), keeps_series_);
    clone->classes_ = classes_;
    clone->series_ = series_;
    return clone;
  }

  // By the number of binary digits of the request.
  const std::array<SizeClass, 65>& classes() const { return classes_; }
  const std::vector<Sample>& series() const { return series_; }

 private:
  void TakeSample() {
    if (keeps_series_) series_.push_back({inner_->usage().allocated, inner_->usage().reserved});
  }

  std::unique_ptr<Allocator> inner_;
  bool keeps_series_;
  std::array<SizeClass, 65> classes_{};
  std::vector<Sample> series_;
};

}  // namespace ebbtide::alloc
