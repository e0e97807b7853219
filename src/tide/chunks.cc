// Splits and joins chunks with the parts that belong to them; parts come from a free list.
#include "tide/chunks.h"

#include <algorithm>

namespace ebbtide::tide {

TideChunks::Index TideChunks::New(Address address, Bytes size, bool large) {
  Index index = static_cast<Index>(chunks_.size());
  if (unused_.empty()) {
    chunks_.emplace_back();
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  Chunk chunk;
  chunk.number = (*this)[index].number + 1;
  chunk.address = address;
  chunk.size = size;
  chunk.large = large;
  (*this)[index] = chunk;
  return index;
}

TideChunks::Index TideChunks::SplitOff(Index index, Bytes size) {
  const Chunk whole = (*this)[index];
  assert(0 < size && size < whole.size);
  assert(whole.state == State::kInHand);
  const Index rest = New(whole.address + static_cast<Address>(size), whole.size - size, whole.large);
  Chunk& chunk = (*this)[index];
  Chunk& behind = (*this)[rest];
  behind.set = whole.set;
  behind.until = whole.until;
  behind.previous = index;
  behind.next = whole.next;
  if (behind.next != kNone) (*this)[behind.next].previous = rest;
  chunk.next = rest;
  chunk.size = size;
  if (chunk.first_part != kNone) SplitParts(chunk, behind);
  return rest;
}

void TideChunks::Swallow(Index first, Index second) {
  Chunk& chunk = (*this)[first];
  Chunk& gone = (*this)[second];
  assert(chunk.next == second && chunk.state == State::kInHand && gone.state == State::kInHand);
  if (chunk.first_part != kNone || gone.first_part != kNone) JoinParts(chunk, gone);
  chunk.until = std::max(chunk.until, gone.until);
  chunk.set = std::max(chunk.set, gone.set);
  chunk.size += gone.size;
  chunk.next = gone.next;
  if (chunk.next != kNone) (*this)[chunk.next].previous = first;
  ++gone.number;
  gone.size = 0;
  unused_.push_back(second);
}

// ---- Parts

TideChunks::Index TideChunks::NewPart(Bytes bytes, Event use) {
  Index index = unused_part_;
  if (index == kNone) {
    index = static_cast<Index>(parts_.size());
    parts_.emplace_back();
  } else {
    unused_part_ = At(index).next;
  }
  At(index) = {.bytes = bytes, .use = use, .next = kNone, .more = kNone};
  return index;
}

void TideChunks::FreePart(Index index) {
  while (index != kNone) {
    const Index more = At(index).more;
    At(index).next = unused_part_;
    unused_part_ = index;
    index = more;
  }
}

void TideChunks::SetUse(Index index, const Event& use) {
  DropParts(index);
  const Index part = NewPart((*this)[index].size, use);
  Chunk& chunk = (*this)[index];
  chunk.first_part = chunk.last_part = part;
  chunk.parts = 1;
}

void TideChunks::AddUse(Index index, const Event& use) {
  const Index added = NewPart(0, use);
  Part& part = At((*this)[index].first_part);
  At(added).more = part.more;
  part.more = added;
}

void TideChunks::DropParts(Index index) {
  Chunk& chunk = (*this)[index];
  for (Index part = chunk.first_part; part != kNone;) {
    const Index next = At(part).next;
    FreePart(part);
    part = next;
  }
  chunk.first_part = chunk.last_part = kNone;
  chunk.parts = 0;
}

Bytes TideChunks::FirstPart(Index index) const {
  const Index part = (*this)[index].first_part;
  return part == kNone ? (*this)[index].size : parts_[static_cast<std::size_t>(part)].bytes;
}

Bytes TideChunks::BytesOfParts(Index index) const {
  Bytes bytes = 0;
  for (Index part = (*this)[index].first_part; part != kNone; part = parts_[static_cast<std::size_t>(part)].next) {
    bytes += parts_[static_cast<std::size_t>(part)].bytes;
  }
  return bytes;
}

void TideChunks::SplitParts(Chunk& chunk, Chunk& rest) {
  const std::uint16_t count = chunk.parts;
  Bytes left = chunk.size;
  Index last = chunk.first_part;
  std::uint16_t kept = 1;
  for (; At(last).bytes < left; last = At(last).next) {
    left -= At(last).bytes;
    kept = static_cast<std::uint16_t>(std::min<int>(kept + 1, kMany));
  }
  rest.first_part = At(last).next;
  rest.last_part = chunk.last_part;
  rest.parts = count == kMany ? kMany : static_cast<std::uint16_t>(count - kept);
  if (At(last).bytes > left) {
    const Index cut = NewPart(At(last).bytes - left, At(last).use);
    for (Index use = At(last).more, end = cut; use != kNone; use = At(use).more) {
      const Index copy = NewPart(0, At(use).use);
      At(end).more = copy;
      end = copy;
    }
    At(cut).next = rest.first_part;
    if (rest.first_part == kNone) rest.last_part = cut;
    rest.first_part = cut;
    if (rest.parts != kMany) ++rest.parts;
    At(last).bytes = left;
  }
  At(last).next = kNone;
  chunk.last_part = last;
  chunk.parts = kept;
}

void TideChunks::JoinParts(Chunk& chunk, Chunk& gone) {
  for (Chunk* one : {&chunk, &gone}) {
    if (one->first_part != kNone) continue;
    one->first_part = one->last_part = NewPart(one->size, {});
    one->parts = 1;
  }
  Part& last = At(chunk.last_part);
  const Part& first = At(gone.first_part);
  const bool alike = last.more == kNone && first.more == kNone && last.use.stream == first.use.stream &&
                     (!first.use.stream.valid() || last.use.position == first.use.position);
  if (alike) {
    last.bytes += first.bytes;
    last.next = first.next;
    if (gone.first_part != gone.last_part) chunk.last_part = gone.last_part;
    FreePart(gone.first_part);
  } else {
    last.next = gone.first_part;
    chunk.last_part = gone.last_part;
  }
  chunk.parts = static_cast<std::uint16_t>(std::min<int>(chunk.parts + gone.parts - alike, kMany));
  gone.first_part = gone.last_part = kNone;
  gone.parts = 0;
}

}  // namespace ebbtide::tide
