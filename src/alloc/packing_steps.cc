#include "alloc/packing_steps.h"

namespace ebbtide::alloc {

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

void FirstFit(const Blocks& blocks, std::span<const int> order, std::vector<Bytes>& offsets) {
  struct Placed {
    Bytes offset, top;
    int from, to;
  };
  std::vector<Placed> placed;  // by offset
  placed.reserve(blocks.all.size());
  const auto by_offset = [](const Placed& a, const Placed& b) { return a.offset < b.offset; };
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Block& block = blocks.all[i];
    if (offsets[i] != kUnplaced) placed.push_back({offsets[i], offsets[i] + block.size, block.from, block.to});
  }
  std::sort(placed.begin(), placed.end(), by_offset);
  for (const int i : order) {
    const Block& block = blocks.all[static_cast<std::size_t>(i)];
    Bytes at = 0;
    for (const Placed& other : placed) {
      if (other.from >= block.to || block.from >= other.to) continue;
      if (other.offset - at >= block.size) break;
      at = std::max(at, other.top);
    }
    offsets[static_cast<std::size_t>(i)] = at;
    const Placed now{at, at + block.size, block.from, block.to};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), now, by_offset), now);
  }
}

Bytes HeightOf(const Blocks& blocks, std::span<const Bytes> offsets) {
  Bytes height = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) height = std::max(height, offsets[i] + blocks.all[i].size);
  return height;
}

}  // namespace ebbtide::alloc
