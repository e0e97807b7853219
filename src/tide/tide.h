// The tide allocator: one range of memory for all streams, in which what one stream frees serves the others as soon as
// the free is scheduled   ◀ its parts: device.h, chunks.h, bins.h, spans.h, quotas.h
//
// A free chunk knows its last uses as points in the work of streams. A request is met by a chunk of one of these
// classes:
//   same stream   only the requesting stream has used it
//   ordered       all uses come before something that the requesting stream has waited for already
//   completed     the device has finished with it
//   scheduled     the requesting stream is made to wait for exactly those uses
//   grown         more memory is taken from the device, no more than adjacent free chunks leave to take
//
// Fit: the first three cost no time, so the smallest chunk of them that is large enough is taken, of equals the first
// class; of ordered ones a few are looked at. Then the smallest scheduled one, then the smallest made of neighbours of
// several streams, then the growth that takes least. The request gets the low end; the rest stays free. A request of
// 64 MiB or more does not break what was one block of four times its size or more, unless the device refuses growth:
// the next large request would find no place. Growth first moves pages that are free and finished, as long as that is
// less than was ever reserved. Chunks that touch are joined where they are of one stream or finished; each part keeps
// its own uses. Requests up to 1 MiB have a range of their own, so that small ones which live long do not cut the large
// ones' memory.
//
// The host waits for the device in one case alone: before a request would fail. When the device refuses memory, whole
// pages that are free and finished are given back, and what was mapped for the request is unmapped again.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tide/bins.h"
#include "tide/chunks.h"
#include "tide/device.h"
#include "tide/names.h"
#include "tide/quotas.h"
#include "tide/spans.h"

namespace ebbtide::tide {

// All functions but usage() may be called by several threads at a time.
class TideAllocator final : public Allocator {
 public:
  enum Class { kSameStream, kOrdered, kCompleted, kScheduled, kGrown, kClasses };

  // Counted of the whole allocator and of each job.
  struct Counts {
    std::array<std::int64_t, kClasses> met{};  // requests by the class that met them
    std::array<Bytes, kClasses> met_bytes{};
    Bytes allocated = 0, allocated_peak = 0;
    std::int64_t waits = 0;          // of a stream for another, by our doing
    std::int64_t out_of_memory = 0;  // requests that failed
  };
  struct JobCounts : Counts {
    Quota quota;
    Bytes charged = 0;  // pages, see TideQuotas
  };
  struct Statistics : Counts {
    Bytes reserved = 0, reserved_peak = 0;
    Bytes given_back = 0;         // in all
    std::int64_t host_waits = 0;  // times that the host waited for the device
    std::map<JobId, JobCounts> jobs;
  };

  // As a model, for replays; and on a device of any kind. What they are given is the caller's and outlives the
  // allocator.
  TideAllocator(DeviceMemory& device, Streams& streams);
  explicit TideAllocator(TideDevice& device) : device_(&device) {}

  std::optional<Block> Allocate(Bytes bytes, StreamId stream) override { return Allocate(bytes, stream, JobId()); }
  // The same for a job; an invalid id stands for none. nullopt also where the job's quota does not allow it.
  std::optional<Block> Allocate(Bytes bytes, StreamId stream, JobId job);
  void Free(BlockId block) override;
  void RecordStream(BlockId block, StreamId stream) override;
  // Gives whole pages back to the device that are free and finished. The host does not wait for others.
  void EmptyCache() override;
  const Usage& usage() const override { return usage_; }
  // Only where this one stands on models, too.
  std::unique_ptr<Allocator> CloneOnto(DeviceMemory& device, Streams& streams) const override;

  // Tells that the program has made the stream wait for the event: what was used up to it is ordered from now on.
  void Ordered(StreamId stream, const Event& event);

  // What the allocator may take in all; what a job is guaranteed and may have. Refused, with the reason, where the
  // guarantees and what is in use would not fit together. Without any there are no limits but the device's.
  Status SetCapacity(Bytes capacity);
  Status SetQuota(JobId job, const Quota& quota);

  Statistics statistics() const;
  std::array<std::int64_t, kClasses> met() const { return statistics().met; }
  std::int64_t waits() const { return statistics().waits; }

  // Whether all its structures agree, for tests: looks at everything.
  bool IsValid() const;

 private:
  using Index = TideChunks::Index;
  using Chunk = TideChunks::Chunk;
  using State = TideChunks::State;
  static constexpr Index kNone = TideChunks::kNone;
  static constexpr std::uint16_t kClean = 0, kMixed = 1, kFirstStream = 2;  // sets of a range

  // A mutex that a copy does not share: copies are made of allocators that no thread uses.
  struct Lock : std::mutex {
    Lock() = default;
    Lock(const Lock&) {}
  };
  struct Range {
    bool reserved = false;
    Index first = kNone;         // its chunk at the lowest address
    std::vector<TideBins> sets;  // clean, mixed, then one per stream
    TideSpans spans;
    std::map<Address, Index> unmapped;  // chunks without memory
  };
  // A chunk to be looked at again when its stream has got that far.
  struct Waiting {
    std::int64_t position;
    Index chunk;
    std::uint32_t number;
  };
  struct Stream {
    std::int64_t finished = 0;        // as far as the device was asked
    std::int64_t needed = 0;          // by the request at hand
    std::deque<Waiting> waiting;      // frees, in order
    std::vector<std::int64_t> known;  // by other stream: how far it has waited
  };
  // Adjacent chunks that together are large enough, and what of them must come from the device.
  struct Run {
    Index first = kNone;
    Bytes to_map = 0;
  };
  struct Request {
    Bytes size = 0;
    StreamId stream;
    JobId job;
    Range* range = nullptr;
    Class met = kGrown;
    bool may_break = false;  // a part of a chunk that is many times larger
  };

  Chunk& At(Index index) { return chunks_[index]; }
  Stream& At(StreamId stream) {
    if (stream.index() >= streams_.size()) streams_.resize(stream.index() + 1);
    return streams_[stream.index()];
  }
  static JobId JobOf(const Chunk& chunk) {
    return chunk.job < 0 ? JobId() : JobId(static_cast<std::size_t>(chunk.job));
  }
  bool IsOver(const Event& use) const { return streams_[use.stream.index()].finished >= use.position; }

  // ---- Free chunks (free.cc): in a set and in the index of spans
  void Put(Index index, State state);
  void Take(Index index);
  void Judge(Index index);
  bool MayJoin(Index index, Index other, State state) const;
  void Watch(Index index);
  void Watch(StreamId stream, const Waiting& waiting);
  void Poll();

  // ---- Meeting requests (tide.cc)
  bool Admits(const Request& request, Index index) const;
  bool IsOrdered(Index index, const Request& request);
  Index Find(Request& request);
  Index FindOrdered(const Request& request, Index best);
  Index FindScheduled(const Request& request) const;
  void Know(StreamId stream, const Event& event);
  std::int64_t WaitFor(Index index, const Request& request);
  Block Hand(Index index, const Request& request);
  Counts& CountsOf(JobId job);
  void Count();

  // ---- Growing and giving back (grow.cc)
  bool Reserve(Range& range, bool large);
  Index Grow(Request& request);
  std::optional<Run> FindRun(const Request& request) const;
  std::optional<Run> RunFrom(Index first, const Request& request, Bytes less_than) const;
  std::optional<Run> FindFresh(const Request& request) const;
  bool Map(const Run& run, Bytes size);
  bool MovePages(Bytes bytes);
  bool WaitForAll();
  void GiveBack(Bytes at_least);

  std::shared_ptr<TideDevice> model_;  // where it is one
  TideDevice* device_;
  mutable Lock lock_;
  Usage usage_;
  TideChunks chunks_;
  std::array<Range, 2> ranges_;                              // small, large
  std::unordered_map<Index, std::vector<StreamId>> others_;  // streams that use an allocated chunk beside its own
  std::vector<Stream> streams_;
  TideQuotas quotas_;
  std::vector<Counts> job_counts_;  // the first: of blocks without a job
  std::int64_t host_waits_ = 0;
  Bytes given_back_ = 0;
  Bytes moved_ = 0;  // given back so that growth need not take more
};

}  // namespace ebbtide::tide
