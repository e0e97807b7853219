// What PyTorch's allocator does with or without expandable segments: rounding, two pools of free blocks, splitting and
// joining, and blocks that wait for events of other streams. pytorch.h and pytorch_expandable.h say where memory comes
// from and what goes back.
//
// Invariants: blocks of a segment form a list in address order without gaps; a block is in the free set of its pool and
// stream exactly while it is mapped, not allocated and waits for nothing; two such neighbours do not exist.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/free_set.h"
#include "alloc/pytorch_options.h"

namespace ebbtide::alloc {

class PytorchBlocks : public Allocator {
 public:
  std::optional<Block> Allocate(Bytes bytes, StreamId stream) final;
  void Free(BlockId block) final;
  void RecordStream(BlockId block, StreamId stream) final;
  void EmptyCache() final { ReleaseCached(); }
  const Usage& usage() const final { return usage_; }
  void Observe(Observer* observer) final { observer_ = observer; }

 protected:
  using Index = std::int32_t;
  static constexpr Index kNone = -1;
  static constexpr Bytes kQuantum = 512;
  static constexpr Bytes kSmallRequest = kMiB;       // the largest one of the small pool
  static constexpr Bytes kSmallSegment = 2 * kMiB;   // what the small pool grows by
  static constexpr Bytes kLargeRequest = 10 * kMiB;  // from here on a segment of its own
  static constexpr Bytes kLargeRounding = 2 * kMiB;

  struct Node {
    Address address = 0;
    Bytes size = 0;
    Index previous = kNone, next = kNone;  // in the segment
    StreamId stream;                       // for which the segment was made
    Index range = kNone;                   // of an expandable segment
    std::int32_t age = 0;                  // number of the segment: older ones go first among blocks of one size
    std::int32_t events = 0;               // that it waits for
    std::int64_t inserted_at = 0;          // searches of its pool before it was put in the free set
    bool small = false;
    bool allocated = false;
    bool mapped = true;
    bool used_elsewhere = false;  // has entries in uses_
  };
  struct Pool {
    std::vector<FreeSet> free;      // by stream
    std::vector<FreeSet> unmapped;  // by stream, ordered by address alone (size 0); of expandable segments only
    std::int64_t searches = 0;
  };
  struct Request {
    Bytes size = 0;     // rounded
    Bytes segment = 0;  // what to take from the device where it has a segment of its own
    StreamId stream;
    bool small = false;
  };

  PytorchBlocks(const PytorchOptions& options, DeviceMemory& device, Streams& streams);
  PytorchBlocks(const PytorchBlocks& other, DeviceMemory& device, Streams& streams);

  // ---- What the two kinds of segments differ in
  // A free block that fits, out of its set; kNone: there is none.
  virtual Index FindFree(const Request& request) = 0;
  // A block of new memory that fits, in no set; kNone: the device refused.
  virtual Index Grow(const Request& request) = 0;
  // Gives back blocks too large to be split, until the request may fit. False: they are too few.
  virtual bool ReleaseOversize(const Request& request) = 0;
  virtual void CollectGarbage() = 0;
  virtual void ReleaseCached() = 0;
  virtual bool ShouldSplit(const Node& node, Bytes size) const = 0;

  // ---- For them
  bool ExceedsFraction(Bytes bytes) const { return has_limit_ && usage_.reserved + bytes > limit_; }
  Bytes limit() const { return limit_; }
  bool CollectsGarbage() const { return has_limit_ && options_.garbage_collection_threshold > 0; }
  bool Oversize(const Request& request, Bytes block) const;
  Pool& PoolOf(bool small) { return pools_[small ? 1 : 0]; }
  FreeSet& FreeOf(bool small, StreamId stream) { return SetOf(PoolOf(small).free, stream); }
  FreeSet& FreeOf(const Node& node) { return FreeOf(node.small, node.stream); }
  FreeSet& UnmappedOf(bool small, StreamId stream) { return SetOf(PoolOf(small).unmapped, stream); }
  FreeSet& UnmappedOf(const Node& node) { return UnmappedOf(node.small, node.stream); }
  Node& At(Index index) { return nodes_[static_cast<std::size_t>(index)]; }
  const Node& At(Index index) const { return nodes_[static_cast<std::size_t>(index)]; }
  Index NewNode();
  void DropNode(Index index) { unused_.push_back(index); }
  bool IsIdle(const Node& node) const { return !node.allocated && node.events == 0 && !node.used_elsewhere; }
  void InsertFree(Index index);
  void EraseFree(Index index);
  void InsertUnmapped(Index index) { UnmappedOf(At(index)).Insert({0, At(index).address, 0, index}); }
  void EraseUnmapped(Index index) { UnmappedOf(At(index)).Erase(0, 0, At(index).address); }
  // Puts `added` between `before` and what follows it (or at the front of what `after` heads).
  void Link(Index before, Index added, Index after);
  // Joins `from`, a neighbour or kNone, into `into` if both are idle and alike.
  void TryJoin(Index into, Index from);
  // Waits for all events on the host.
  void FinishEvents();

  // The device gave or got back so many bytes at the address, for blocks like `node`.
  void Took(const Node& node, Address address, Bytes bytes) {
    usage_.Take(bytes);
    if (observer_ != nullptr) observer_->OnTake({address, bytes, node.stream, node.small, node.range != kNone});
  }
  void Gave(const Node& node, Address address, Bytes bytes) {
    usage_.Give(bytes);
    if (observer_ != nullptr) observer_->OnGive({address, bytes, node.stream, node.small, node.range != kNone});
  }

  std::int32_t NextAge() { return options_.ties_by_age ? ++segments_made_ : 0; }

  PytorchOptions options_;
  DeviceMemory* device_;
  Streams* streams_;
  Usage usage_;

 private:
  struct Waiting {
    Event event;
    Index block;
  };

  static FreeSet& SetOf(std::vector<FreeSet>& sets, StreamId stream) {
    if (stream.index() >= sets.size()) sets.resize(stream.index() + 1);
    return sets[stream.index()];
  }
  Bytes SegmentSize(Bytes size) const;
  Block HandOut(Index index, Bytes size);
  void PollEvents();
  void EventReached(Index index);
  void BecomeFree(Index index);

  Observer* observer_ = nullptr;
  std::int32_t segments_made_ = 0;
  bool has_limit_ = false;
  Bytes limit_ = 0;
  std::vector<Node> nodes_;
  std::vector<Index> unused_;
  Pool pools_[2];
  std::unordered_map<Index, std::vector<StreamId>> uses_;
  std::vector<std::deque<Waiting>> waiting_;  // by stream, in the order of the frees
  std::int64_t waiting_count_ = 0;
};

}  // namespace ebbtide::alloc
