// The depth-first search of a packing.
#include "pack/search.h"

#include <limits>
#include <numeric>

namespace ebbtide::pack {
namespace {

constexpr Bytes kNever = std::numeric_limits<Bytes>::max();
// Between two questions whether the packing is still wanted.
constexpr std::int64_t kPlacementsPerQuestion = 64;

}  // namespace

PackSearch::PackSearch(const Blocks& blocks, std::span<const int> order, std::span<const Bytes> offsets, Bytes capacity,
                       bool infer)
    : capacity_(capacity),
      infer_(infer),
      company_(order.size()),
      equal_before_(order.size(), -1),
      fixed_(order.size()),
      floor_(order.size()),
      lowest_(order.size()),
      offset_(order.size()),
      placed_(order.size()),
      members_(blocks.live.size()),
      fixed_members_(blocks.live.size()),
      total_(blocks.live.size()),
      witness_(blocks.live.size(), -1) {
  for (const int i : order) blocks_.push_back(blocks.all[U(i)]);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for (int section = blocks_[i].from; section < blocks_[i].to; ++section) {
      members_[U(section)].push_back(static_cast<int>(i));
      ++looks_;
      total_[U(section)] += blocks_[i].size;
    }
    for (std::size_t k = 0; k < blocks_.size(); ++k) {
      if (i == k || !blocks_[i].Meets(blocks_[k])) continue;
      company_[i].push_back(static_cast<int>(k));
      const bool equal =
          blocks_[i].from == blocks_[k].from && blocks_[i].to == blocks_[k].to && blocks_[i].size == blocks_[k].size;
      if (k < i && equal) equal_before_[i] = static_cast<int>(k);
    }
  }
  const auto by_offset = [](const Span& a, const Span& b) { return a.offset < b.offset; };
  for (std::size_t f = 0; f < offsets.size(); ++f) {
    if (offsets[f] == kUnplaced) continue;
    const Block& block = blocks.all[f];
    const Span span{offsets[f], offsets[f] + block.size};
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (block.Meets(blocks_[i])) fixed_[i].push_back(span);
    }
    for (int section = block.from; section < block.to; ++section) fixed_members_[U(section)].push_back(span);
    looks_ += block.to - block.from;
  }
  for (std::vector<Span>& spans : fixed_members_) std::sort(spans.begin(), spans.end(), by_offset);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    std::sort(fixed_[i].begin(), fixed_[i].end(), by_offset);
    std::vector<Span> merged;
    for (const Span& span : fixed_[i]) {
      if (!merged.empty() && span.offset <= merged.back().top) {
        merged.back().top = std::max(merged.back().top, span.top);
      } else {
        merged.push_back(span);
      }
    }
    fixed_[i] = std::move(merged);
    floor_[i] = Fit(static_cast<int>(i), 0);
  }
  looks_ += static_cast<std::int64_t>(blocks_.size() * (blocks_.size() + offsets.size()));
}

bool PackSearch::Run(std::int64_t evaluations, PackLimits& limits) {
  limits_ = &limits;
  left_ = std::min(evaluations, limits.evaluations);
  std::vector<int> ranks(blocks_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return SolveParts(ranks, 0, static_cast<int>(total_.size()), 0, -1);
}

// A placement is one evaluation, and one more for every kLooksPerEvaluation looks that the last one took.
bool PackSearch::Spend() {
  if (left_ <= 0 || limits_->Over()) return false;
  const std::int64_t cost = 1 + looks_ / kLooksPerEvaluation;
  looks_ %= kLooksPerEvaluation;
  left_ -= cost;
  limits_->evaluations -= cost;
  if (limits_->deadline.Passed()) limits_->expired = true;
  if (limits_->cancelled && ++limits_->placements % kPlacementsPerQuestion == 0 && limits_->cancelled()) {
    limits_->expired = true;
  }
  return true;
}

// The lowest place at or above `from` that the fixed blocks leave.
Bytes PackSearch::Fit(int rank, Bytes from) const {
  for (const Span& span : fixed_[U(rank)]) {
    if (span.top <= from) continue;
    if (span.offset - from >= blocks_[U(rank)].size) break;
    from = span.top;
  }
  return from;
}

Bytes PackSearch::FixedAbove(int section, Bytes offset) const {
  Bytes bytes = 0;
  const std::vector<Span>& spans = fixed_members_[U(section)];
  std::size_t i = spans.size();
  for (; i > 0 && spans[i - 1].offset >= offset; --i) bytes += spans[i - 1].top - spans[i - 1].offset;
  looks_ += static_cast<std::int64_t>(spans.size() - i);
  return bytes;
}

bool PackSearch::HasCompany(int rank) const {
  return std::any_of(company_[U(rank)].begin(), company_[U(rank)].end(), [&](int other) { return !placed_[U(other)]; });
}

// Stretches of sections with something to place, one after the other: what was placed for one is of no concern to the
// next, so it is not tried again when that fails.
bool PackSearch::SolveParts(const std::vector<int>& ranks, int from, int to, Bytes offset, int last) {
  while (true) {
    while (from < to && total_[U(from)] == 0) ++from;
    if (from == to) return true;
    int end = from;
    while (end < to && total_[U(end)] > 0) ++end;
    std::vector<int> part;
    for (const int rank : ranks) {
      const Block& block = blocks_[U(rank)];
      if (!placed_[U(rank)] && block.from >= from && block.to <= end) part.push_back(rank);
    }
    if (!SolvePart(part, from, end, offset, last)) return false;
    from = end;
  }
}

// Offsets from here on are at least `offset`; at that very offset, ranks are above `last`.
bool PackSearch::SolvePart(const std::vector<int>& ranks, int from, int to, Bytes offset, int last) {
  if (!Spend()) return false;
  looks_ += to - from + static_cast<std::int64_t>(ranks.size());
  if (!FindLowest(ranks, offset, last)) return false;
  if (infer_ && !Infer(from, to)) return false;
  if (!HasRoom(from, to)) return false;

  Bytes lowest_top = kNever;
  for (const int rank : ranks) lowest_top = std::min(lowest_top, floor_[U(rank)] + blocks_[U(rank)].size);
  std::vector<std::pair<Bytes, int>> candidates;
  for (const int rank : ranks) {
    const Bytes floor = floor_[U(rank)];
    const bool equal_first = equal_before_[U(rank)] >= 0 && !placed_[U(equal_before_[U(rank)])];
    if (equal_first || floor >= lowest_top || lowest_[U(rank)] > floor || IsPassed(rank, offset, last)) continue;
    candidates.emplace_back(floor, rank);
  }
  std::sort(candidates.begin(), candidates.end());
  for (const auto& [floor, rank] : candidates) {
    const std::size_t floors = old_floors_.size();
    const std::size_t placements = placements_.size();
    if (Place(rank) && SolveParts(ranks, from, to, floor, rank)) return true;
    UndoTo(floors, placements);
    if (left_ <= 0 || limits_->Over()) return false;
    // Nothing comes above it: no other place for it would have helped.
    if (!HasCompany(rank)) return false;
  }
  return false;
}

// Where each can be at the lowest. One that was passed over must rest on something that is still to come.
bool PackSearch::FindLowest(const std::vector<int>& ranks, Bytes offset, int last) {
  for (const int rank : ranks) {
    Bytes lowest = floor_[U(rank)];
    if (IsPassed(rank, offset, last)) {
      Bytes top = kNever;
      looks_ += static_cast<std::int64_t>(company_[U(rank)].size());
      for (const int other : company_[U(rank)]) {
        if (placed_[U(other)]) continue;
        top = std::min(top, std::max(floor_[U(other)], offset) + blocks_[U(other)].size);
      }
      if (top == kNever) return false;
      lowest = Fit(rank, std::max(lowest, top));
    }
    if (lowest + blocks_[U(rank)].size > capacity_) return false;
    lowest_[U(rank)] = lowest;
  }
  return true;
}

// In each section, something must come first and leave room for the rest. What cannot be first comes above what can.
bool PackSearch::Infer(int from, int to) {
  for (int section = from; section < to; ++section) {
    if (total_[U(section)] == 0) continue;
    looks_ += 2 * static_cast<std::int64_t>(members_[U(section)].size());
    Bytes top = kNever;
    int firsts = 0;
    int only = -1;
    for (const int rank : members_[U(section)]) {
      if (!FitsFirst(section, rank)) continue;
      ++firsts;
      only = rank;
      top = std::min(top, lowest_[U(rank)] + blocks_[U(rank)].size);
    }
    if (firsts == 0) return false;
    for (const int rank : members_[U(section)]) {
      if (placed_[U(rank)] || lowest_[U(rank)] >= top) continue;
      if (FitsFirst(section, rank) && !(firsts == 1 && rank != only)) continue;
      lowest_[U(rank)] = Fit(rank, top);
      if (lowest_[U(rank)] + blocks_[U(rank)].size > capacity_) return false;
    }
  }
  return true;
}

bool PackSearch::HasRoom(int from, int to) {
  for (int section = from; section < to; ++section) {
    if (total_[U(section)] == 0) continue;
    int& witness = witness_[U(section)];
    if (witness >= 0 && FitsFirst(section, witness)) continue;
    const std::vector<int>& members = members_[U(section)];
    const auto first = std::find_if(members.begin(), members.end(), [&](int rank) { return FitsFirst(section, rank); });
    if (first == members.end()) return false;
    witness = *first;
  }
  return true;
}

// On its floor; whether what remains still has room above it.
bool PackSearch::Place(int rank) {
  const Block& block = blocks_[U(rank)];
  const Bytes top = floor_[U(rank)] + block.size;
  offset_[U(rank)] = floor_[U(rank)];
  placed_[U(rank)] = 1;
  placements_.push_back(rank);
  bool room = true;
  looks_ += block.to - block.from + static_cast<std::int64_t>(company_[U(rank)].size());
  for (int section = block.from; section < block.to; ++section) {
    Bytes& total = total_[U(section)];
    total -= block.size;
    room = room && (total == 0 || top + total + FixedAbove(section, top) <= capacity_);
  }
  if (!room) return false;
  for (const int other : company_[U(rank)]) {
    if (placed_[U(other)] || floor_[U(other)] >= top) continue;
    old_floors_.emplace_back(other, floor_[U(other)]);
    floor_[U(other)] = Fit(other, top);
  }
  return true;
}

void PackSearch::UndoTo(std::size_t floors, std::size_t placements) {
  for (; old_floors_.size() > floors; old_floors_.pop_back()) {
    floor_[U(old_floors_.back().first)] = old_floors_.back().second;
  }
  for (; placements_.size() > placements; placements_.pop_back()) {
    const Block& block = blocks_[U(placements_.back())];
    placed_[U(placements_.back())] = 0;
    for (int section = block.from; section < block.to; ++section) total_[U(section)] += block.size;
  }
}

}  // namespace ebbtide::pack
