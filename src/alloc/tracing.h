// Writes down what goes through any allocator, as a trace in our own form (docs/replay.md) that can be replayed.
#pragma once

#include <string>
#include <vector>

#include "alloc/allocator.h"
#include "base/json_text.h"

namespace ebbtide::alloc {

class TracingAllocator final : public Allocator {
 public:
  explicit TracingAllocator(std::unique_ptr<Allocator> inner) : inner_(std::move(inner)) {}

  std::optional<Block> Allocate(Bytes bytes, StreamId stream) override {
    const std::optional<Block> block = inner_->Allocate(bytes, stream);
    Line("alloc", next_, bytes, stream);
    if (block) {
      if (block->id.index() >= names_.size()) names_.resize(block->id.index() + 1);
      names_[block->id.index()] = next_;
    }
    ++next_;
    return block;
  }
  void Free(BlockId block) override {
    Line("free", names_[block.index()], -1, StreamId());
    inner_->Free(block);
  }
  void RecordStream(BlockId block, StreamId stream) override {
    Line("record_stream", names_[block.index()], -1, stream);
    inner_->RecordStream(block, stream);
  }
  void EmptyCache() override {
    Line("empty_cache", -1, -1, StreamId());
    inner_->EmptyCache();
  }
  const Usage& usage() const override { return inner_->usage(); }
  void Observe(Observer* observer) override { inner_->Observe(observer); }
  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override {
    auto clone = std::make_unique<TracingAllocator>(inner_->CloneOnto(device, streams));
    clone->text_ = text_;
    clone->names_ = names_;
    clone->next_ = next_;
    return clone;
  }

  const std::string& text() const { return text_; }

 private:
  void Line(std::string_view action, std::int64_t id, Bytes bytes, StreamId stream) {
    text_ += action;
    for (const std::int64_t number : {id, bytes, static_cast<std::int64_t>(stream.value)}) {
      text_ += ',';
      if (number >= 0) AppendInteger(text_, number);
    }
    text_ += '\n';
  }

  std::unique_ptr<Allocator> inner_;
  std::string text_ = "action,id,bytes,stream\n";
  std::vector<std::int64_t> names_;  // of the trace, by the inner allocator's ids
  std::int64_t next_ = 0;
};

}  // namespace ebbtide::alloc
