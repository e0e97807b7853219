// The chunks of the tide allocator: pieces of its ranges in order of address, each allocated, free or without memory.
// A free chunk consists of parts, each with its own last uses, so that a split or a join forgets none and adds none.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "base/huge_pages.h"
#include "tide/names.h"

namespace ebbtide::tide {

class TideChunks {
 public:
  using Index = std::int32_t;
  static constexpr Index kNone = -1;

  enum class State : std::uint8_t { kInHand, kFree, kUnmapped };  // in hand: allocated, or being changed

  struct alignas(64) Chunk {
    Address address = 0;
    Bytes size = 0;
    std::int64_t until = 0;                // free, of one stream: no use lies behind this position
    Index previous = kNone, next = kNone;  // in the range
    Index before = kNone, behind = kNone;  // in its bin
    Index first_part = kNone, last_part = kNone;
    StreamId stream;           // it was allocated for
    std::uint32_t number = 0;  // changes when the chunk does
    std::uint16_t set = 0;     // of free chunks
    std::uint16_t parts = 0;   // how many; kMany: that or more
    std::int16_t job = -1;     // it was allocated for
    State state = State::kInHand;
    bool large : 1 = false;       // which of the two ranges
    bool in_span : 1 = false;     // TideSpans
    bool has_others : 1 = false;  // allocated: other streams use it too

    Address end() const { return address + static_cast<Address>(size); }
  };
  static_assert(sizeof(Chunk) == 64);

  // Bytes that were last used together; a chain of further uses where several streams did.
  struct Part {
    Bytes bytes = 0;
    Event use;  // its stream is invalid where all uses are over
    Index next = kNone;
    Index more = kNone;
  };
  static constexpr std::uint16_t kMany = 0xffff;

  Chunk& operator[](Index index) { return chunks_[static_cast<std::size_t>(index)]; }
  const Chunk& operator[](Index index) const { return chunks_[static_cast<std::size_t>(index)]; }
  std::size_t size() const { return chunks_.size() - unused_.size(); }
  std::size_t slots() const { return chunks_.size(); }  // indices below; some are not in use
  void Prefetch(Index index) const {
    if (index != kNone) __builtin_prefetch(&(*this)[index]);
  }
  bool Is(Index index, State state) const { return index != kNone && (*this)[index].state == state; }

  Index New(Address address, Bytes size, bool large);  // in hand
  // Leaves the first `size` bytes to the chunk; the rest becomes a chunk behind it.
  Index SplitOff(Index index, Bytes size);
  // The chunk behind becomes part of this one.
  void Swallow(Index first, Index second);

  // ---- Parts
  void SetUse(Index index, const Event& use);  // the only one of the whole chunk
  void AddUse(Index index, const Event& use);  // to the first part
  void DropParts(Index index);                 // all uses are over
  // Calls visit(event) for the uses of the first `bytes`; it may clear the event's stream: that use is over. Stops
  // where visit returns false.
  template <class Visit>
  void ForUses(Index index, Bytes bytes, Visit&& visit);
  Bytes BytesOfParts(Index index) const;
  Bytes FirstPart(Index index) const;  // its bytes; of a chunk without parts all

 private:
  Part& At(Index index) { return parts_[static_cast<std::size_t>(index)]; }
  Index NewPart(Bytes bytes, Event use);
  void FreePart(Index index);  // with its chain
  void SplitParts(Chunk& chunk, Chunk& rest);
  void JoinParts(Chunk& chunk, Chunk& gone);

  std::vector<Chunk, HugePages<Chunk>> chunks_;
  std::vector<Index> unused_;
  std::vector<Part, HugePages<Part>> parts_;
  Index unused_part_ = kNone;
};

template <class Visit>
void TideChunks::ForUses(Index index, Bytes bytes, Visit&& visit) {
  for (Index i = (*this)[index].first_part; i != kNone && bytes > 0; i = At(i).next) {
    for (Index use = i; use != kNone; use = At(use).more) {
      if (At(use).use.stream.valid() && !visit(At(use).use)) return;
    }
    bytes -= At(i).bytes;
  }
}

}  // namespace ebbtide::tide
