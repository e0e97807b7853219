// Spans by address and by size, kept as chunks come and go at their ends and inside.
#include "tide/spans.h"

#include <iterator>

namespace ebbtide::tide {

using State = TideChunks::State;

TideSpans::Spans::const_iterator TideSpans::Holding(Address address) const {
  return std::prev(spans_.upper_bound(address));
}

void TideSpans::Insert(const Span& span) {
  spans_.emplace(span.begin, Rest{span.end, span.first});
  by_size_.emplace(static_cast<Bytes>(span.end - span.begin), span.begin);
}

void TideSpans::Erase(Spans::const_iterator span) {
  by_size_.erase({static_cast<Bytes>(span->second.end - span->first), span->first});
  spans_.erase(span);
}

TideSpans::Span TideSpans::Around(const TideChunks& chunks, Index index) const {
  const TideChunks::Chunk& chunk = chunks[index];
  if (!chunk.in_span) return {chunk.address, chunk.end(), index};
  const auto span = Holding(chunk.address);
  return {span->first, span->second.end, span->second.first};
}

void TideSpans::Add(TideChunks& chunks, Index index) {
  TideChunks::Chunk& chunk = chunks[index];
  Span span{chunk.address, chunk.end(), index};
  for (const Index other : {chunk.previous, chunk.next}) {
    if (!chunks.Is(other, State::kFree)) continue;
    const Span its = Around(chunks, other);
    if (chunks[other].in_span) Erase(spans_.find(its.begin));
    if (other == chunk.previous) {
      span.begin = its.begin;
      span.first = its.first;
    } else {
      span.end = its.end;
    }
    chunks[other].in_span = chunk.in_span = true;
  }
  if (chunk.in_span) Insert(span);
}

void TideSpans::Remove(TideChunks& chunks, Index index) {
  TideChunks::Chunk& chunk = chunks[index];
  if (!chunk.in_span) return;
  chunk.in_span = false;
  const auto found = Holding(chunk.address);
  const Span span{found->first, found->second.end, found->second.first};
  Erase(found);
  const auto keep = [&](const Span& rest, Index neighbour) {
    if (rest.begin == rest.end) return;
    const TideChunks::Chunk& one = chunks[neighbour];
    if (one.address == rest.begin && one.end() == rest.end) {
      chunks[neighbour].in_span = false;
    } else {
      Insert(rest);
    }
  };
  keep({span.begin, chunk.address, span.first}, chunk.previous);
  keep({chunk.end(), span.end, chunk.next}, chunk.next);
}

std::optional<TideSpans::Span> TideSpans::Find(Bytes size) const {
  const auto found = by_size_.lower_bound({size, 0});
  if (found == by_size_.end()) return std::nullopt;
  const auto span = spans_.find(found->second);
  return Span{span->first, span->second.end, span->second.first};
}

}  // namespace ebbtide::tide
