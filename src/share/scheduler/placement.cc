// Finds addresses in a lane: orders of storages are tried, each goes to the lowest address that is free.
#include "share/scheduler/placement.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "pack/pack.h"
#include "sim/simulate.h"

namespace ebbtide::share {
namespace {

using pack::PackItem;
using Order = std::vector<std::uint32_t>;

// Items one after the other, each at the lowest address at which nothing placed before lives during its life.
std::vector<Bytes> LowestFit(const std::vector<PackItem>& items, const Order& order) {
  std::vector<Bytes> offsets(items.size(), 0);
  struct Placed {
    Bytes begin, end;
    std::int64_t from, to;
  };
  std::vector<Placed> placed;  // by their begin
  placed.reserve(items.size());
  for (const std::uint32_t i : order) {
    const PackItem& item = items[i];
    Bytes at = 0;
    for (const Placed& other : placed) {
      if (other.begin >= at + item.size) {
        // Nothing that begins further up is in the way, and what lies below `at` was passed.
        break;
      }
      if (other.end > at && other.from < item.to && item.from < other.to) at = other.end;
    }
    offsets[i] = at;
    if (item.size == 0) continue;
    const Placed mine{at, at + item.size, item.from, item.to};
    placed.insert(std::ranges::upper_bound(placed, at, {}, &Placed::begin), mine);
  }
  return offsets;
}

// The highest top of the items that live during each step. `lives(i)`: the steps [from, to) that count for item i.
template <class Lives>
std::vector<Bytes> HighestTops(const std::vector<PackItem>& items, const std::vector<Bytes>& offsets, std::size_t steps,
                               const Lives& lives) {
  Order order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, std::greater<>(), [&](std::uint32_t i) { return offsets[i] + items[i].size; });
  // From the highest down, each step is given to the first that lives then; `next` leads to one not given yet.
  std::vector<Bytes> out(steps, 0);
  std::vector<std::size_t> next(steps + 1);
  std::iota(next.begin(), next.end(), std::size_t{0});
  const auto find = [&](std::size_t step) {
    while (next[step] != step) step = next[step] = next[next[step]];
    return step;
  };
  for (const std::uint32_t i : order) {
    const auto [from, to] = lives(i);
    for (std::size_t step = find(static_cast<std::size_t>(from)); step < static_cast<std::size_t>(to);
         step = find(step)) {
      out[step] = offsets[i] + items[i].size;
      next[step] = step + 1;
    }
  }
  return out;
}

class Search {
 public:
  Search(const std::vector<PackItem>& items, std::int64_t steps, const std::vector<Nanos>& times, Bytes alignment)
      : items_(items), times_(times), alignment_(alignment), live_(steps + 1, 0) {
    for (const PackItem& item : items) live_[item.from] += item.size, live_[item.to] -= item.size;
    std::partial_sum(live_.begin(), live_.end(), live_.begin());
    live_.pop_back();
    peak_step_ = live_.empty() ? 0 : std::ranges::max_element(live_) - live_.begin();
  }

  std::vector<Bytes> Run(Bytes height_limit) {
    if (items_.size() > kMostItems) {
      TryPack(height_limit);
      return best_;
    }
    // Storages that are made after the peak and live on while the tide ebbs (gradients) keep the height up if they
    // lie on top, and raise the peak if they lie at the bottom: as many go to the bottom as there is room for.
    Order late;
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      if (items_[i].from > peak_step_ && items_[i].to - items_[i].from > kShortLife) late.push_back(i);
    }
    std::ranges::stable_sort(late, [&](auto a, auto b) { return items_[a].from < items_[b].from; });
    const auto with_bottom = [&](std::size_t count) {
      return Try(Order(late.begin(), late.begin() + static_cast<std::ptrdiff_t>(count)), height_limit);
    };
    std::size_t low = 0, high = late.size() + 1;
    for (int quarter = 0; quarter <= 4; ++quarter) {
      const std::size_t count = late.size() * static_cast<std::size_t>(quarter) / 4;
      (with_bottom(count) <= height_limit ? low : high) = count;
      if (high == count) break;
    }
    for (int round = 0; round < kRounds && low + 1 < high; ++round) {
      const std::size_t count = (low + high) / 2;
      (with_bottom(count) <= height_limit ? low : high) = count;
    }
    if (best_height_ > height_limit) TryPack(height_limit);
    return best_;
  }

 private:
  static constexpr std::int64_t kShortLife = 8;  // steps
  static constexpr int kRounds = 5;
  static constexpr std::size_t kMostItems = 20'000;  // more are packed for the peak alone
  static constexpr int kRepairs = 3;

  // What is alive at the peak lies in the order in which it ends, the last at the bottom; then what ends before the
  // peak or begins after it.
  Order OrderFor(const Order& bottom, std::int64_t peak) const {
    std::vector<int> rank(items_.size(), 2);
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      if (items_[i].from <= peak && peak < items_[i].to) rank[i] = 1;
    }
    for (const std::uint32_t i : bottom) rank[i] = 0;
    Order order(items_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
      if (rank[a] != rank[b]) return rank[a] < rank[b];
      const PackItem &x = items_[a], &y = items_[b];
      if (rank[a] < 2) return x.to != y.to ? x.to > y.to : x.from < y.from;
      const bool x_before = x.to <= peak, y_before = y.to <= peak;
      if (x_before != y_before) return x_before;
      // The longer lives first, on either side.
      const std::int64_t x_life = x.to - x.from, y_life = y.to - y.from;
      if (x_life != y_life) return x_life > y_life;
      return x.size > y.size;
    });
    return order;
  }

  Bytes Try(const Order& bottom, Bytes height_limit) {
    std::int64_t peak = peak_step_;
    Bytes least = 0;
    for (int repair = 0; repair < kRepairs; ++repair) {
      const std::vector<Bytes> offsets = LowestFit(items_, OrderFor(bottom, peak));
      const Bytes height = Consider(offsets, height_limit);
      least = repair == 0 ? height : std::min(least, height);
      if (height <= height_limit) break;
      // Where it is highest is what has to be placed first.
      const std::vector<Bytes> heights = Heights(offsets);
      const std::int64_t highest = std::ranges::max_element(heights) - heights.begin();
      if (highest == peak) break;
      peak = highest;
    }
    return least;
  }

  void TryPack(Bytes height_limit) {
    const pack::Packing packing =
        pack::Pack(items_, {.capacity = height_limit, .alignment = alignment_, .evaluations = 2000});
    Consider(packing.offsets, height_limit);
  }

  std::vector<Bytes> Heights(const std::vector<Bytes>& offsets) const {
    return HighestTops(items_, offsets, live_.size(),
                       [&](std::uint32_t i) { return std::pair(items_[i].from, items_[i].to); });
  }

  // Keeps it if it is better: within `height_limit` the one with the least height over time, else the lowest.
  Bytes Consider(const std::vector<Bytes>& offsets, Bytes height_limit) {
    const std::vector<Bytes> heights = Heights(offsets);
    Bytes height = 0;
    double area = 0;
    for (std::size_t step = 0; step < heights.size(); ++step) {
      height = std::max(height, heights[step]);
      area += static_cast<double>(heights[step]) * static_cast<double>(times_[step]);
    }
    const bool better = best_.empty() || (height <= height_limit && best_height_ <= height_limit
                                              ? area < best_area_
                                              : height < best_height_ || (height == best_height_ && area < best_area_));
    if (better) best_ = offsets, best_height_ = height, best_area_ = area;
    return height;
  }

  const std::vector<PackItem>& items_;
  const std::vector<Nanos>& times_;
  const Bytes alignment_;
  std::vector<Bytes> live_;
  std::int64_t peak_step_ = 0;
  std::vector<Bytes> best_;
  Bytes best_height_ = 0;
  double best_area_ = 0;
};

// The lane's storages and workspaces: those of the stays in their order, then those of the steps that have one.
std::vector<PackItem> ItemsOf(const sim::Workload& workload, const Placement& placement,
                              const IdVector<StepId, Bytes>& workspace) {
  std::vector<PackItem> items;
  for (const StayId i : placement.schedule.stays.ids()) {
    const sim::Stay& stay = placement.schedule.stays[i];
    if (!placement.is_state[i]) items.push_back({stay.from.value, stay.to.value, workload.bytes[stay.storage]});
  }
  for (const StepId k : workspace.ids()) {
    if (workspace[k] > 0) items.push_back({k.value, k.Next().value, workspace[k]});
  }
  return items;
}

void FillProfile(const std::vector<PackItem>& items, const std::vector<Bytes>& offsets, Placement& out) {
  const std::size_t steps = out.schedule.steps.size();
  const auto highest = [&](const auto& lives) {
    return IdVector<StepId, Bytes>(HighestTops(items, offsets, steps, lives));
  };
  out.heights = highest([&](std::uint32_t i) { return std::pair(items[i].from, items[i].to); });
  // What lives on behind a step: all but what ends with it.
  out.after = highest([&](std::uint32_t i) { return std::pair(items[i].from, items[i].to - 1); });
  out.live.assign(steps + 1, 0), out.crossing.assign(steps + 1, 0);
  for (const PackItem& item : items) {
    const auto step = [](std::int64_t number) { return StepId(static_cast<std::size_t>(number)); };
    out.live[step(item.from)] += item.size, out.live[step(item.to)] -= item.size;
    out.crossing[step(item.from)] += item.size, out.crossing[step(item.to - 1)] -= item.size;
  }
  std::partial_sum(out.live.begin(), out.live.end(), out.live.begin());
  std::partial_sum(out.crossing.begin(), out.crossing.end(), out.crossing.begin());
  out.live.pop_back(), out.crossing.pop_back();
  out.height = steps == 0 ? 0 : *std::ranges::max_element(out.heights);
  out.live_peak = steps == 0 ? 0 : *std::ranges::max_element(out.live);
}

}  // namespace

sim::Schedule PlainSchedule(const sim::Workload& workload) {
  sim::Schedule out;
  for (const OpId op : workload.op_ids()) out.steps.push_back(op);
  // Nothing runs again: ops and steps have the same numbers.
  const auto step_of = [](OpId op) { return StepId(op.index()); };
  for (const StorageId s : workload.storage_ids()) {
    const bool present = workload.IsState(s), stays = !workload.last_reference[s].valid();
    out.stays.push_back({.storage = s,
                         .from = present ? StepId(0) : step_of(workload.born[s]),
                         .to = stays ? out.steps.end_id() : step_of(workload.last_reference[s]).Next(),
                         .begin = present ? sim::Begin::kPresent : sim::Begin::kCompute,
                         .end = stays ? sim::End::kStays : sim::End::kFree});
  }
  std::ranges::sort(out.stays, [](const sim::Stay& a, const sim::Stay& b) {
    return a.from != b.from ? a.from < b.from : a.storage < b.storage;
  });
  return out;
}

Placement PlaceInLane(const sim::Workload& workload, sim::Schedule schedule, Bytes height_limit) {
  Placement out;
  out.schedule = std::move(schedule);
  for (sim::Stay& stay : out.schedule.stays) {
    const bool is_state = stay.begin == sim::Begin::kPresent || stay.end == sim::End::kStays;
    out.is_state.push_back(is_state);
    if (!is_state) continue;
    stay.address = out.state;
    out.state += workload.bytes[stay.storage];
  }
  const IdVector<StepId, Bytes> workspace = sim::StepWorkspace(workload, out.schedule);
  const std::vector<PackItem> items = ItemsOf(workload, out, workspace);
  std::vector<Nanos> times;
  for (const OpId op : out.schedule.steps) times.push_back(workload.time[op]);
  const auto steps = static_cast<std::int64_t>(out.schedule.steps.size());
  const std::vector<Bytes> offsets =
      items.empty() ? std::vector<Bytes>{} : Search(items, steps, times, workload.alignment).Run(height_limit);
  std::size_t next = 0;
  for (const StayId i : out.schedule.stays.ids()) {
    if (!out.is_state[i]) out.schedule.stays[i].address = offsets[next++];
  }
  out.schedule.workspace_address.assign(out.schedule.steps.size(), -1);
  for (const StepId k : workspace.ids()) {
    if (workspace[k] > 0) out.schedule.workspace_address[k] = offsets[next++];
  }
  FillProfile(items, offsets, out);
  return out;
}

Status CheckPlacement(const sim::Workload& workload, const Placement& placement) {
  struct Block {
    StepId from, to;
    Bytes begin, end;
    bool is_state;
  };
  std::vector<Block> blocks;
  const sim::Schedule& schedule = placement.schedule;
  for (const StayId i : schedule.stays.ids()) {
    const sim::Stay& stay = schedule.stays[i];
    // State is there in every iteration: for all of the time.
    const bool is_state = placement.is_state[i];
    const StepId from = is_state ? StepId(0) : stay.from, to = is_state ? schedule.steps.end_id() : stay.to;
    blocks.push_back({from, to, stay.address, stay.address + workload.bytes[stay.storage], is_state});
  }
  const IdVector<StepId, Bytes> workspace = sim::StepWorkspace(workload, schedule);
  for (const StepId k : workspace.ids()) {
    const Bytes at = schedule.workspace_address[k];
    if (workspace[k] > 0) blocks.push_back({k, k.Next(), at, at + workspace[k], false});
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& a = blocks[i];
    if (a.begin < 0 || a.end > (a.is_state ? placement.state : placement.height)) {
      return Fail("block {} of [{}, {}) lies outside its memory", i, a.begin, a.end);
    }
    for (StepId step = a.from; step < a.to && !a.is_state; ++step) {
      if (a.end > placement.heights[step]) return Fail("block {} reaches above the height at step {}", i, step.value);
    }
    for (std::size_t j = 0; j < i; ++j) {
      const Block& b = blocks[j];
      const bool together = a.is_state == b.is_state && a.from < b.to && b.from < a.to;
      if (together && a.begin < b.end && b.begin < a.end) return Fail("blocks {} and {} share bytes", j, i);
    }
  }
  return {};
}

PlacementCost CostOf(const sim::Workload& workload, const Placement& placement) {
  double height = 0, live = 0;
  for (const StepId step : placement.heights.ids()) {
    const auto time = static_cast<double>(workload.time[placement.schedule.steps[step]]);
    height += static_cast<double>(placement.heights[step]) * time;
    live += static_cast<double>(placement.live[step]) * time;
  }
  if (live <= 0 || placement.live_peak <= 0) return {};
  return {static_cast<double>(placement.height) / static_cast<double>(placement.live_peak), height / live};
}

}  // namespace ebbtide::share
