// The tide allocator: one range of memory for all streams, in which what one stream frees serves the others as soon as
// the free is scheduled.
//
// A free chunk knows its last uses as points in the work of streams. A request is met by a chunk of one of these
// classes:
//   same stream   only the requesting stream has used it
//   ordered       all uses come before something that the requesting stream has waited for already
//   completed     the device has finished with it
//   scheduled     the requesting stream is made to wait for exactly those uses
//   grown         more memory is taken from the device, no more than adjacent free chunks leave to take
// The first three cost no time: the smallest chunk of them that is large enough is taken. Then the smallest of the
// fourth, also one made of neighbours. Nothing ever waits on the host. Chunks that touch are joined where they are of
// one stream or finished; each part keeps its own uses. Requests up to 1 MiB have a range of their own, so that small
// ones which live long do not cut the large ones' memory.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/free_set.h"

namespace ebbtide::alloc {

class TideAllocator final : public Allocator {
 public:
  enum Class { kSameStream, kOrdered, kCompleted, kScheduled, kGrown, kClasses };

  TideAllocator(DeviceMemory& device, Streams& streams) : device_(&device), streams_(&streams) {}

  std::optional<Block> Allocate(Bytes bytes, StreamId stream) override;
  void Free(BlockId block) override;
  void RecordStream(BlockId block, StreamId stream) override;
  void EmptyCache() override;
  const Usage& usage() const override { return usage_; }
  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override;

  // The stream has waited for the event, by the program's doing.
  void Ordered(StreamId stream, const Event& event);

  // How many requests each class met, and how often a stream was made to wait.
  const std::array<std::int64_t, kClasses>& met() const { return met_; }
  std::int64_t waits() const { return waits_; }

 private:
  using Index = std::int32_t;
  static constexpr Index kNone = -1;
  static constexpr std::size_t kClean = 0, kMixed = 1, kFirstStream = 2;  // free sets of a range

  // Bytes of a free chunk that were last used together.
  struct Part {
    Bytes bytes = 0;
    std::vector<Event> uses;
  };
  struct Chunk {
    Address address = 0;
    Bytes size = 0;
    Index previous = kNone, next = kNone;  // in the range
    std::uint32_t number = 0;              // changes when the chunk does
    std::uint8_t range = 0;
    bool allocated = false, mapped = true;
    bool listed = false;       // among the empty chunks of its range
    StreamId stream;           // it was allocated for
    std::size_t set = kClean;  // while it is free
    std::vector<Part> parts;   // while it is free and not clean, in order
  };
  struct Range {
    bool reserved = false;
    std::vector<FreeSet> sets;          // clean, mixed, then one per stream
    std::map<Address, Index> unmapped;  // chunks without memory
  };
  struct Waiting {
    Event event;
    Index chunk;
    std::uint32_t number;
  };
  // Adjacent chunks that together are large enough, and what of them must come from the device.
  struct Run {
    Index first = kNone;
    Bytes to_map = 0;
  };

  Chunk& At(Index index) { return chunks_[static_cast<std::size_t>(index)]; }
  const Chunk& At(Index index) const { return chunks_[static_cast<std::size_t>(index)]; }
  Index NewChunk(const Chunk& like, Address address, Bytes size);
  bool Reserve(std::uint8_t range);
  // Leaves `size` bytes of the chunk, which is in no set; the rest becomes a chunk behind it, in none either.
  Index SplitOff(Index index, Bytes size);
  void Swallow(Index first, Index second);

  // ---- Empty chunks: free ones are in a set, those without memory are not
  void Put(Index index);
  void Take(Index index);
  std::size_t SetOf(Chunk& chunk);
  void Watch(Index index);
  void Poll();

  // ---- Meeting requests
  bool IsOrdered(const Chunk& chunk, Bytes bytes, StreamId stream) const;
  Index FindWithoutWait(Range& range, Bytes size, StreamId stream, Class& met);
  Index FindScheduled(Range& range, Bytes size, StreamId stream);
  std::vector<Index> EmptyChunks(const Range& range) const;
  std::optional<Run> FindRun(const Range& range, Bytes size) const;
  bool Map(const Run& run, Bytes size);
  Block Hand(Index index, Bytes size, StreamId stream);
  void WaitFor(const Chunk& chunk, Bytes bytes, StreamId stream);
  void GiveBack();

  DeviceMemory* device_;
  Streams* streams_;
  Usage usage_;
  std::vector<Chunk> chunks_;
  std::vector<Index> unused_;
  std::array<Range, 2> ranges_;                              // small, large
  std::unordered_map<Index, std::vector<StreamId>> others_;  // streams that use an allocated chunk beside its own
  std::vector<std::deque<Waiting>> waiting_;                 // by stream: frees, in order
  std::vector<std::vector<std::int64_t>> known_;             // by stream, by other stream: how far it has waited
  std::array<std::int64_t, kClasses> met_{};
  std::int64_t waits_ = 0;
};

}  // namespace ebbtide::alloc
