// Sections by sorting begins and ends; first fit over what is placed, in chunks that can be passed over whole; a sweep
// over time.
#include "pack/steps.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace ebbtide::pack {

Blocks MakeBlocks(std::span<const PackItem> items, Bytes alignment) {
  std::vector<std::int64_t> steps;
  steps.reserve(2 * items.size());
  for (const PackItem& item : items) {
    steps.push_back(item.from);
    steps.push_back(item.to);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  const auto section = [&](std::int64_t step) {
    return static_cast<int>(std::lower_bound(steps.begin(), steps.end(), step) - steps.begin());
  };
  Blocks blocks;
  std::vector<Bytes> change(steps.size() + 1);
  for (const PackItem& item : items) {
    const Block block{.from = section(item.from),
                      .to = section(item.to),
                      .size = RoundUp(item.size, alignment),
                      .life = item.to - item.from};
    change[static_cast<std::size_t>(block.from)] += block.size;
    change[static_cast<std::size_t>(block.to)] -= block.size;
    blocks.all.push_back(block);
  }
  Bytes live = 0;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) blocks.live.push_back(live += change[i]);

  // The most over a range of sections, for all blocks: maxima over ranges of powers of two.
  std::vector<std::vector<Bytes>> most = {blocks.live};
  for (std::size_t width = 1; 2 * width <= blocks.live.size(); width *= 2) {
    const std::vector<Bytes>& half = most.back();
    std::vector<Bytes> whole(half.size() - width);
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = std::max(half[i], half[i + width]);
    most.push_back(std::move(whole));
  }
  for (Block& block : blocks.all) {
    std::size_t level = 0;
    while ((2 << level) <= block.to - block.from) ++level;
    block.crowd = std::max(most[level][static_cast<std::size_t>(block.from)],
                           most[level][static_cast<std::size_t>(block.to - (1 << level))]);
  }
  return blocks;
}

namespace {

struct Placed {
  Bytes offset, top;
  int from, to;

  bool Meets(const Block& block) const { return from < block.to && block.from < to; }
};
// Those at one offset by time, so that a chunk of them spans little of it.
bool ByOffset(const Placed& a, const Placed& b) { return std::pair(a.offset, a.from) < std::pair(b.offset, b.from); }

// Neighbours by offset, with what says for a block that it meets none of them, or all of them and fits between none.
class Chunk {
 public:
  static constexpr std::size_t kMost = 128;

  explicit Chunk(std::vector<Placed> items) : items_(std::move(items)) { Sum(); }

  void Insert(const Placed& item) {
    items_.insert(std::upper_bound(items_.begin(), items_.end(), item, ByOffset), item);
    Sum();
  }
  const Placed& first() const { return items_.front(); }
  bool IsFull() const { return items_.size() >= kMost; }
  Chunk SplitOff() {
    const auto middle = items_.begin() + static_cast<std::ptrdiff_t>(items_.size() / 2);
    Chunk upper(std::vector<Placed>(middle, items_.end()));
    items_.erase(middle, items_.end());
    Sum();
    return upper;
  }

  // Goes on to look for the lowest place from `at` on; true: it is found.
  bool Fits(const Block& block, Bytes& at) const {
    if (earliest_from_ >= block.to || block.from >= latest_to_) return false;
    const bool meets_all = latest_from_ < block.to && block.from < earliest_to_;
    if (meets_all && widest_gap_ < block.size && first().offset - at < block.size) {
      at = std::max(at, top_);
      return false;
    }
    for (const Placed& item : items_) {
      if (!item.Meets(block)) continue;
      if (item.offset - at >= block.size) return true;
      at = std::max(at, item.top);
    }
    return false;
  }

 private:
  void Sum() {
    earliest_from_ = latest_from_ = items_.front().from;
    earliest_to_ = latest_to_ = items_.front().to;
    top_ = items_.front().top;
    widest_gap_ = 0;
    for (const Placed& item : items_) {
      earliest_from_ = std::min(earliest_from_, item.from);
      latest_from_ = std::max(latest_from_, item.from);
      earliest_to_ = std::min(earliest_to_, item.to);
      latest_to_ = std::max(latest_to_, item.to);
      widest_gap_ = std::max(widest_gap_, item.offset - top_);
      top_ = std::max(top_, item.top);
    }
  }

  std::vector<Placed> items_;  // by offset; never empty
  int earliest_from_ = 0, latest_from_ = 0, earliest_to_ = 0, latest_to_ = 0;
  Bytes top_ = 0, widest_gap_ = 0;
};

}  // namespace

std::size_t FirstFit(const Blocks& blocks, std::span<const int> order, std::vector<Bytes>& offsets,
                     const std::function<bool()>& stop, Bytes limit) {
  constexpr std::size_t kBlocksPerQuestion = 64;
  std::size_t placed = 0;
  std::vector<Placed> given;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Block& block = blocks.all[i];
    if (offsets[i] != kUnplaced) given.push_back({offsets[i], offsets[i] + block.size, block.from, block.to});
  }
  std::sort(given.begin(), given.end(), ByOffset);
  std::vector<Chunk> chunks;  // by offset
  for (std::size_t i = 0; i < given.size(); i += Chunk::kMost / 2) {
    const std::size_t end = std::min(given.size(), i + Chunk::kMost / 2);
    chunks.emplace_back(std::vector<Placed>(given.begin() + static_cast<std::ptrdiff_t>(i),
                                            given.begin() + static_cast<std::ptrdiff_t>(end)));
  }
  for (const int i : order) {
    if (stop && placed % kBlocksPerQuestion == 0 && stop()) return placed;
    const Block& block = blocks.all[static_cast<std::size_t>(i)];
    Bytes at = 0;
    for (const Chunk& chunk : chunks) {
      if (chunk.Fits(block, at)) break;
    }
    if (block.size > limit - at) return placed;
    ++placed;
    offsets[static_cast<std::size_t>(i)] = at;
    const Placed now{at, at + block.size, block.from, block.to};
    auto chunk = std::upper_bound(chunks.begin(), chunks.end(), now,
                                  [](const Placed& item, const Chunk& one) { return ByOffset(item, one.first()); });
    if (chunk != chunks.begin()) --chunk;
    if (chunk == chunks.end()) {
      chunks.emplace_back(std::vector<Placed>{now});
    } else {
      chunk->Insert(now);
      if (chunk->IsFull()) {
        Chunk upper = chunk->SplitOff();
        chunks.insert(chunk + 1, std::move(upper));
      }
    }
  }
  return placed;
}

namespace {

// Free bytes below `top_`, as gaps that never touch.
class Gaps {
 public:
  Bytes Take(Bytes size) {
    if (size == 0) return 0;
    const auto smallest = by_size_.lower_bound({size, 0});
    if (smallest == by_size_.end()) {
      // The gap at the top, if there is one, grows.
      Bytes at = top_;
      if (!gaps_.empty() && gaps_.rbegin()->first + gaps_.rbegin()->second == top_) {
        at = gaps_.rbegin()->first;
        Erase(std::prev(gaps_.end()));
      }
      top_ = at + size;
      return at;
    }
    const auto [length, at] = *smallest;
    Erase(gaps_.find(at));
    if (length > size) Add(at + size, length - size);
    return at;
  }
  void Give(Bytes at, Bytes size) {
    if (size == 0) return;
    auto next = gaps_.lower_bound(at);
    if (next != gaps_.end() && next->first == at + size) {
      size += next->second;
      next = Erase(next);
    }
    if (next != gaps_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == at) {
        at = before->first;
        size += before->second;
        Erase(before);
      }
    }
    Add(at, size);
  }

 private:
  using Map = std::map<Bytes, Bytes>;  // length by offset

  void Add(Bytes at, Bytes size) {
    gaps_.emplace(at, size);
    by_size_.emplace(size, at);
  }
  Map::iterator Erase(Map::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    return gaps_.erase(gap);
  }

  Map gaps_;
  std::set<std::pair<Bytes, Bytes>> by_size_;
  Bytes top_ = 0;
};

}  // namespace

std::vector<Bytes> SweepFit(const Blocks& blocks) {
  struct Event {
    int section;
    bool begins;  // ends come first
    std::size_t block;
  };
  std::vector<Event> events;
  events.reserve(2 * blocks.all.size());
  for (std::size_t i = 0; i < blocks.all.size(); ++i) {
    events.push_back({blocks.all[i].from, true, i});
    events.push_back({blocks.all[i].to, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.section, a.begins, a.block) < std::tuple(b.section, b.begins, b.block);
  });
  std::vector<Bytes> offsets(blocks.all.size(), 0);
  Gaps gaps;
  for (const Event& event : events) {
    const Bytes size = blocks.all[event.block].size;
    if (event.begins) {
      offsets[event.block] = gaps.Take(size);
    } else {
      gaps.Give(offsets[event.block], size);
    }
  }
  return offsets;
}

Bytes HeightOf(const Blocks& blocks, std::span<const Bytes> offsets) {
  Bytes height = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) height = std::max(height, offsets[i] + blocks.all[i].size);
  return height;
}

}  // namespace ebbtide::pack
