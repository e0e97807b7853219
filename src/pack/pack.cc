// First fit in several orders, repair of the best, then rounds of searches (search.h) while evaluations are left.
#include "pack/pack.h"

#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <string_view>

#include "pack/search.h"
#include "pack/steps.h"

namespace ebbtide::pack {
namespace {

constexpr Bytes kMostBytes = Bytes{1} << 62;

// What comes first, most first: t the bytes of its fullest section, w its life, a life x size, z its size, s its start.
using Keys = std::string_view;
constexpr Keys kFirstFitOrders[] = {"aw", "wz", "tw", "zw", "twa", "ws", "sw"};
constexpr Keys kSearchOrders[] = {"twa", "taw", "wat", "awt", "wta", "atw", "zwt", "tzw", "wzt", "swz"};

// Blocks of the fullest sections are placed first, then those of the next level: shares of the peak. What is hard is
// decided while nothing is in the way.
constexpr std::array<double, 5> kLevels[] = {
    {0}, {1, 0}, {1, 0.9, 0}, {0.97, 0}, {1, 0.95, 0.9, 0.8, 0}, {0.9, 0}, {0.95, 0.85, 0},
};
constexpr std::int64_t kFirstSlice = 1000;  // placements per level
constexpr int kRoundsPerSlice = 280;        // then the slice doubles
constexpr int kPlainRounds = 10;            // without noise in the order
constexpr int kRepairs = 24;                // first-fit passes that move what sticks out to the front
// Where only a packing within the capacity is wanted; of more than so many blocks, fewer repairs.
constexpr int kQuickOrders = 4, kQuickRepairs = 12;
constexpr std::size_t kQuickBlocks = 2000;
constexpr std::size_t kMostSearched = 2000;    // blocks; first fit comes within a percent of the peak for more
constexpr std::size_t kMostRepaired = 10'000;  // blocks; for more, a pass takes seconds

class Packer {
 public:
  Packer(std::span<const PackItem> items, const PackOptions& options)
      : options_(options), blocks_(MakeBlocks(items, options.alignment)), random_(options.seed) {
    result_.lower_bound = blocks_.peak();
    goal_ = std::max(options.capacity, result_.lower_bound);
    limits_.evaluations = options.evaluations;
    limits_.cancelled = options.cancelled;
    limits_.deadline = options.deadline;
  }

  Packing Run() {
    if (options_.within_only) {
      FitWithin();
      if (result_.offsets.empty()) Sweep();
      return std::move(result_);
    }
    if (options_.deadline.exists()) Sweep();
    if (result_.offsets.empty() || result_.height > goal_) FirstPasses();
    if (result_.offsets.empty()) Sweep();  // there was no time for anything else
    if (result_.height > goal_) Repair();
    if (IsLate() && result_.height > goal_) limits_.expired = true;
    if (blocks_.all.size() <= kMostSearched) {
      if (result_.height > goal_) SearchAt(goal_, limits_.evaluations / 3 * 2);
      if (result_.height > goal_) Approach();
    }
    result_.evaluations = options_.evaluations - std::max<std::int64_t>(0, limits_.evaluations);
    result_.stopped_early = limits_.expired;
    return std::move(result_);
  }

 private:
  bool IsLate() const { return options_.deadline.Passed() || (options_.cancelled && options_.cancelled()); }
  // First fit in the order; false: there was no time to place all.
  bool PlaceAll(std::span<const int> order, std::vector<Bytes>& offsets) const {
    return FirstFit(blocks_, order, offsets, [this] { return IsLate(); }) == order.size();
  }
  // A packing that takes no time to speak of, for a deadline that first fit may not meet.
  void Sweep() { Keep(SweepFit(blocks_)); }

  std::vector<int> Everything() const {
    std::vector<int> order(blocks_.all.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  double Key(char key, const Block& block) const {
    const auto life = static_cast<double>(block.life);
    const auto size = static_cast<double>(block.size);
    switch (key) {
      case 't': return static_cast<double>(block.crowd);
      case 'w': return life;
      case 'a': return life * size;
      case 'z': return size;
      default: return -static_cast<double>(block.from);
    }
  }

  // Sorts by the keys. `noise`: the share by which a key may be off, the same way for all keys of a block.
  void Sort(std::vector<int>& order, Keys keys, double noise) {
    std::vector<std::array<double, 3>> values(blocks_.all.size());
    for (const int i : order) {
      const double factor = noise > 0 ? 1 + noise * (static_cast<double>(random_() >> 11) * 0x1p-53 - 0.5) : 1;
      for (std::size_t k = 0; k < keys.size(); ++k) {
        const double value = Key(keys[k], blocks_.all[static_cast<std::size_t>(i)]);
        values[static_cast<std::size_t>(i)][k] = keys[k] == 't' || keys[k] == 's' ? value : value * factor;
      }
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
    });
  }

  void Keep(std::vector<Bytes> offsets) {
    const Bytes height = HeightOf(blocks_, offsets);
    if (!result_.offsets.empty() && height >= result_.height) return;
    result_.height = height;
    result_.offsets = std::move(offsets);
  }

  void FirstPasses() {
    const bool many = blocks_.all.size() > kMostRepaired;
    for (const Keys keys : std::span(kFirstFitOrders).first(many ? 3 : std::size(kFirstFitOrders))) {
      std::vector<int> order = Everything();
      Sort(order, keys, 0);
      std::vector<Bytes> offsets(order.size(), kUnplaced);
      if (!PlaceAll(order, offsets)) return;
      Keep(std::move(offsets));
      if (best_order_.empty() || result_.height < best_height_) best_order_ = std::move(order);
      best_height_ = result_.height;
      if (result_.height <= goal_) return;
    }
  }

  // First fit that ends with the first block for which there is no room, and begins anew with that block in front.
  void FitWithin() {
    const auto share = static_cast<int>(std::max(blocks_.all.size() / kQuickBlocks, std::size_t{1}));
    const int repairs = kQuickRepairs / share;
    for (const Keys keys : std::span(kFirstFitOrders).first(kQuickOrders)) {
      std::vector<int> order = Everything();
      Sort(order, keys, 0);
      for (int pass = 0; pass <= repairs && !IsLate(); ++pass) {
        std::vector<Bytes> offsets(order.size(), kUnplaced);
        const std::size_t placed = FirstFit(
            blocks_, order, offsets, [this] { return IsLate(); }, goal_);
        if (placed == order.size()) return Keep(std::move(offsets));
        const auto stuck = order.begin() + static_cast<std::ptrdiff_t>(placed);
        std::rotate(order.begin(), stuck, stuck + 1);
      }
    }
  }

  // Again and again in the best order, with what sticks out above the goal in front.
  void Repair() {
    if (blocks_.all.size() > kMostRepaired || best_order_.empty()) return;
    std::vector<int> order = best_order_;
    for (int pass = 0; pass < kRepairs && result_.height > goal_; ++pass) {
      std::vector<Bytes> offsets(order.size(), kUnplaced);
      if (!PlaceAll(order, offsets)) return;
      std::stable_partition(order.begin(), order.end(), [&](int i) {
        return offsets[static_cast<std::size_t>(i)] + blocks_.all[static_cast<std::size_t>(i)].size > goal_;
      });
      Keep(std::move(offsets));
    }
  }

  // Rounds of searches, each in an order of its own, until one succeeds or the evaluations are spent.
  bool SearchAt(Bytes capacity, std::int64_t evaluations) {
    const std::int64_t end = limits_.evaluations - std::min(evaluations, limits_.evaluations);
    std::int64_t slice = kFirstSlice;
    for (int round = 0; !limits_.Over() && limits_.evaluations > end; ++round) {
      const std::int64_t before = limits_.evaluations;
      if (SearchOnce(capacity, round, std::min(slice, limits_.evaluations - end))) return true;
      // One that fails before its first placement has its price too.
      if (limits_.evaluations == before) limits_.evaluations -= 1 + static_cast<std::int64_t>(blocks_.all.size()) / 8;
      if (round % kRoundsPerSlice == kRoundsPerSlice - 1) slice *= 2;
    }
    return false;
  }

  bool SearchOnce(Bytes capacity, int round, std::int64_t slice) {
    const Keys keys = kSearchOrders[static_cast<std::size_t>(round) % std::size(kSearchOrders)];
    const auto& levels = kLevels[static_cast<std::size_t>(round) % std::size(kLevels)];
    const double noise = round < kPlainRounds ? 0 : round % 3 == 0 ? 0.1 : 0.5;
    std::vector<int> order = Everything();
    Sort(order, keys, noise);
    std::vector<Bytes> offsets(order.size(), kUnplaced);
    for (const double level : levels) {
      const auto least = static_cast<Bytes>(level * static_cast<double>(result_.lower_bound));
      std::vector<int> next;
      for (const int i : order) {
        const auto index = static_cast<std::size_t>(i);
        if (offsets[index] == kUnplaced && blocks_.all[index].crowd >= least) next.push_back(i);
      }
      if (next.size() > PackSearch::kMostBlocks) {
        if (!PlaceAll(next, offsets)) return false;
        limits_.evaluations -= static_cast<std::int64_t>(next.size() * offsets.size()) / kLooksPerEvaluation;
      } else if (!next.empty()) {
        PackSearch search(blocks_, next, offsets, capacity,
                          ((round + round / static_cast<int>(std::size(kSearchOrders))) & 1) != 0);
        if (!search.Run(slice, limits_)) return false;
        for (std::size_t rank = 0; rank < next.size(); ++rank) {
          offsets[static_cast<std::size_t>(next[rank])] = search.offset(rank);
        }
      }
      if (level == 0) break;
    }
    const bool found = HeightOf(blocks_, offsets) <= capacity;
    Keep(std::move(offsets));
    return found;
  }

  // No packing of the goal was found: halves the way to it as long as that succeeds.
  void Approach() {
    Bytes failed = goal_;
    while (!limits_.Over() && result_.height - failed > std::max<Bytes>(result_.lower_bound / 1000, 1)) {
      const Bytes middle = failed + (result_.height - failed) / 2;
      if (!SearchAt(middle, std::max<std::int64_t>(kFirstSlice, options_.evaluations / 20))) failed = middle;
    }
  }

  const PackOptions options_;
  const Blocks blocks_;
  std::mt19937_64 random_;
  Packing result_;
  Bytes goal_ = 0;
  PackLimits limits_;
  std::vector<int> best_order_;
  Bytes best_height_ = 0;
};

}  // namespace

Status CheckPackItems(std::span<const PackItem> items, Bytes alignment) {
  if (alignment < 1) return Fail("alignment: expected 1 or more, found {}", alignment);
  Bytes sum = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const PackItem& item = items[i];
    if (item.from >= item.to)
      return Fail("item {}: expected it to end after it begins, found [{}, {})", i, item.from, item.to);
    if (!CheckedAdd(item.to, -(item.from + 1)).has_value() || item.from == std::numeric_limits<std::int64_t>::min()) {
      return Fail("item {}: its life exceeds 64 bits", i);
    }
    if (item.size < 0) return Fail("item {}: size: expected 0 or more, found {}", i, item.size);
    const auto padded = CheckedAdd(item.size, alignment - 1);
    const auto next = padded ? CheckedAdd(sum, *padded) : std::nullopt;
    if (!next || *next > kMostBytes) return Fail("item {}: size: the sum up to here exceeds 62 bits", i);
    sum = *next;
  }
  return {};
}

// What lives all the time shares its bytes with nothing: it lies at the bottom, and the rest is packed above it.
Packing Pack(std::span<const PackItem> items, const PackOptions& options) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (const PackItem& item : items) {
    begin = std::min(begin, item.from);
    end = std::max(end, item.to);
  }
  Packing packing;
  packing.offsets.resize(items.size());
  Bytes base = 0;
  std::vector<PackItem> rest;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].from > begin || items[i].to < end) {
      rest.push_back(items[i]);
    } else {
      packing.offsets[i] = base;
      base += RoundUp(items[i].size, options.alignment);
    }
  }
  PackOptions above = options;
  above.capacity = std::max<Bytes>(0, options.capacity - base);
  const Packing upper = Packer(rest, above).Run();
  auto offset = upper.offsets.begin();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].from > begin || items[i].to < end) packing.offsets[i] = base + *offset++;
  }
  packing.height = base + upper.height;
  packing.lower_bound = base + upper.lower_bound;
  packing.evaluations = upper.evaluations;
  packing.stopped_early = upper.stopped_early;
  return packing;
}

Bytes LivePeak(std::span<const PackItem> items, Bytes alignment) { return MakeBlocks(items, alignment).peak(); }

Status ValidatePacking(std::span<const PackItem> items, std::span<const Bytes> offsets, Bytes capacity,
                       Bytes alignment) {
  if (offsets.size() != items.size()) return Fail("expected {} offsets, found {}", items.size(), offsets.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (offsets[i] < 0 || offsets[i] % alignment != 0) {
      return Fail("item {}: expected an offset from 0 on, a multiple of {}, found {}", i, alignment, offsets[i]);
    }
    if (items[i].size > capacity || offsets[i] > capacity - items[i].size) {
      return Fail("item {}: [{}, {} + {}) reaches above {}", i, offsets[i], offsets[i], items[i].size, capacity);
    }
    for (std::size_t k = 0; k < i; ++k) {
      const bool same_time = items[i].from < items[k].to && items[k].from < items[i].to;
      const bool same_bytes = offsets[i] < offsets[k] + items[k].size && offsets[k] < offsets[i] + items[i].size;
      if (same_time && same_bytes) return Fail("items {} and {} share bytes while both live", k, i);
    }
  }
  return {};
}

}  // namespace ebbtide::pack
