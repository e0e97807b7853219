// Spans: free chunks of different sets that touch, which together serve a request that none of them does alone. A chunk
// whose neighbours are not free is in no span and costs nothing here.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tide/chunks.h"

namespace ebbtide::tide {

class TideSpans {
 public:
  using Index = TideChunks::Index;
  struct Span {
    Address begin = 0, end = 0;
    Index first = TideChunks::kNone;
  };

  // The chunk is free from now on. It was joined before with neighbours that it may be joined with.
  void Add(TideChunks& chunks, Index index);
  // The chunk is free no longer, or is about to change.
  void Remove(TideChunks& chunks, Index index);

  // The smallest span of at least `size` bytes, of several the lowest; nullopt where there is none.
  std::optional<Span> Find(Bytes size) const;
  // All free memory around a free chunk, in one piece: its span, or itself.
  Span Around(const TideChunks& chunks, Index index) const;

 private:
  struct Rest {
    Address end = 0;
    Index first = TideChunks::kNone;
  };
  using Spans = std::map<Address, Rest>;

  Spans::const_iterator Holding(Address address) const;
  void Insert(const Span& span);
  void Erase(Spans::const_iterator span);

  Spans spans_;
  std::set<std::pair<Bytes, Address>> by_size_;
};

}  // namespace ebbtide::tide
