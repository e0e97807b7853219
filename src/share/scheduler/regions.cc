// Gaps between states and lanes, and what goes into them.
#include "share/scheduler/regions.h"

#include <algorithm>

namespace ebbtide::share {

std::vector<Regions::Span> Regions::Gaps() const {
  std::vector<Span> taken = states_;
  for (const Lane& lane : lanes_) {
    if (lane.open) taken.push_back({lane.begin, lane.begin + lane.need});
  }
  std::ranges::sort(taken);
  std::vector<Span> gaps;
  Bytes at = 0;
  for (const Span& span : taken) {
    if (span.begin > at) gaps.push_back({at, span.begin});
    at = std::max(at, span.end);
  }
  if (at < capacity_) gaps.push_back({at, capacity_});
  return gaps;
}

std::optional<Bytes> Regions::AddState(Bytes bytes) {
  const std::vector<Span> gaps = Gaps();
  for (auto gap = gaps.rbegin(); gap != gaps.rend(); ++gap) {
    const Bytes begin = (gap->end - bytes) / alignment_ * alignment_;
    if (gap->end < bytes || begin < gap->begin) continue;
    if (bytes > 0) states_.push_back({begin, begin + bytes});
    return begin;
  }
  return bytes == 0 ? std::optional<Bytes>(0) : std::nullopt;
}

void Regions::RemoveState(Bytes begin) {
  std::erase_if(states_, [&](const Span& span) { return span.begin == begin; });
}

std::optional<LaneId> Regions::OpenLane(Bytes need) {
  for (const Span& gap : Gaps()) {
    // Another lane may reach into the gap for the moment; a new lane begins in clear memory only.
    if (gap.end - gap.begin < need || !IsClear(gap.begin, need)) continue;
    auto slot = std::ranges::find(lanes_, false, &Lane::open);
    if (slot == lanes_.end()) slot = lanes_.insert(lanes_.end(), Lane{});
    *slot = {.open = true, .begin = gap.begin, .need = need, .useful = need, .size = need};
    return LaneId(static_cast<std::size_t>(slot - lanes_.begin()));
  }
  return std::nullopt;
}

bool Regions::Require(LaneId lane, Bytes need) {
  Lane& of = lanes_[lane.index()];
  if (need <= of.need) return true;
  for (const Span& gap : Gaps()) {
    if (gap.begin != of.begin + of.need || gap.end < of.begin + need) continue;
    of.need = need;
    of.useful = std::max(of.useful, need);
    return true;
  }
  return false;
}

Bytes Regions::Target(LaneId lane) const {
  const Lane& of = lanes_[lane.index()];
  Bytes end = capacity_;
  for (const Span& state : states_) {
    if (state.begin >= of.begin) end = std::min(end, state.begin);
  }
  for (const Lane& other : lanes_) {
    if (other.open && other.begin > of.begin) end = std::min(end, other.begin);
  }
  return std::min(of.useful, (end - of.begin) / alignment_ * alignment_);
}

bool Regions::IsClear(Bytes begin, Bytes bytes) const {
  return std::ranges::none_of(lanes_, [&](const Lane& lane) {
    return lane.open && bytes > 0 && lane.begin < begin + bytes && begin < lane.begin + lane.size;
  });
}

Bytes Regions::taken() const {
  Bytes sum = 0;
  for (const Span& state : states_) sum += state.end - state.begin;
  for (const Lane& lane : lanes_) sum += lane.open ? lane.need : 0;
  return sum;
}

}  // namespace ebbtide::share
