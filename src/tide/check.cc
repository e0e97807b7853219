// Whether the structures of the tide allocator agree with each other.
#include "tide/tide.h"

namespace ebbtide::tide {

bool TideAllocator::IsValid() const {
  const std::lock_guard lock(lock_);
  Bytes reserved = 0, allocated = 0;
  for (std::size_t which = 0; which < ranges_.size(); ++which) {
    const Range& range = ranges_[which];
    if (!range.reserved) continue;
    std::vector<std::int64_t> free(range.sets.size(), 0);
    std::size_t unmapped = 0;
    Index before = kNone;
    for (Index index = range.first; index != kNone; before = index, index = chunks_[index].next) {
      const Chunk& chunk = chunks_[index];
      if (chunk.previous != before || chunk.large != (which == 1) || chunk.size <= 0) return false;
      if (before != kNone && chunks_[before].end() != chunk.address) return false;
      const bool is_free = chunk.state == State::kFree;
      if (chunk.state != State::kUnmapped) reserved += chunk.size;
      if (chunk.state == State::kInHand) allocated += chunk.size;
      if (chunk.state == State::kUnmapped) {
        ++unmapped;
        const auto found = range.unmapped.find(chunk.address);
        if (found == range.unmapped.end() || found->second != index || chunk.size % DeviceMemory::kGranule != 0) {
          return false;
        }
      }
      if (is_free) {
        if (chunk.set >= free.size() || (chunk.set == kClean) != (chunk.first_part == kNone)) return false;
        ++free[chunk.set];
        if (chunk.first_part != kNone && chunks_.BytesOfParts(index) != chunk.size) return false;
      }
      const bool beside = chunks_.Is(chunk.previous, State::kFree) || chunks_.Is(chunk.next, State::kFree);
      if (chunk.in_span != (is_free && beside)) return false;
    }
    if (unmapped != range.unmapped.size()) return false;
    for (std::size_t set = 0; set < free.size(); ++set) {
      std::int64_t listed = 0;
      Bytes last = 0;
      for (Index one = range.sets[set].Find(0); one != kNone; one = range.sets[set].After(chunks_, one), ++listed) {
        if (chunks_[one].state != State::kFree || chunks_[one].set != set || chunks_[one].size < last) return false;
        last = chunks_[one].size;
      }
      if (listed != free[set]) return false;
    }
  }
  return reserved == usage_.reserved && allocated == usage_.allocated;
}

}  // namespace ebbtide::tide
