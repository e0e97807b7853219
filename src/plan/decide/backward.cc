// Goes back through the first runs with the set of storages that must be there. Where the set takes too much memory,
// one of it is made at this moment, from the others, so that it need not have been there before.
#include "plan/decide/backward.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/search/position.h"

namespace ebbtide::plan {
namespace {

constexpr std::size_t kMostBehind = 400;    // units that run to make one storage again
constexpr std::size_t kMostRunsPerOp = 48;  // on average; beyond it the schedule is of no use to anybody
constexpr double kStale = 1.25;             // a price that has risen more than this is compared with the others again
// The share of the budget that is kept free where that can be had: without room nothing can be made again, and with
// much of it more is made again than has to be.
constexpr std::array kFree = {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7};
constexpr double kDearest = 3;  // what is so many times dearer than the cheapest waits
constexpr double kLuck = 0.3;   // what chance does to the prices, in all tries but the first
constexpr int kHalvings = 7;    // of what is between two budgets

class Backward {
 public:
  Backward(const Problem& problem, const Units& units, Bytes budget, std::int64_t& work)
      : problem_(problem),
        workload_(*problem.workload),
        units_(units),
        room_(budget),
        work_(work),
        held_(workload_.storages(), false),
        locked_(workload_.storages(), false),
        seen_(units.units.size(), 0),
        added_(workload_.storages(), 0) {
    for (const StorageId s : workload_.storage_ids()) {
      if (workload_.IsState(s)) room_ -= workload_.bytes[s];
    }
  }

  std::optional<std::vector<RunAgain>> Run(double free, double luck, std::uint64_t seed) {
    Random random(seed);
    runs_.clear();
    used_ = again_ = 0;
    std::ranges::fill(held_, false);
    for (const StorageId s : workload_.storage_ids()) {
      if (workload_.outlives[s]) Hold(s);
    }
    for (stage_ = workload_.time.end_id(); stage_ > OpId(0);) {
      const OpId op(stage_.index() - 1);
      const auto needs = workload_.needs[op], births = workload_.births[op];
      Bytes more = workload_.workspace[op];
      for (const auto list : {needs, births}) {
        for (const StorageId s : list) {
          if (!workload_.IsState(s) && !held_[s]) more += workload_.bytes[s];
          locked_[s] = true;
        }
      }
      const Bytes wanted = std::min(room_ - more, static_cast<Bytes>((1 - free) * static_cast<double>(room_)));
      Shrink(wanted, luck, random);
      for (const auto list : {needs, births}) {
        for (const StorageId s : list) locked_[s] = false;
      }
      if (used_ + more > room_ || runs_.size() > kMostRunsPerOp * workload_.ops() || work_ <= 0 || IsLate(problem_))
        return std::nullopt;
      for (const StorageId s : births) Release(s);
      for (const StorageId s : needs) Hold(s);
      stage_ = op;
    }
    std::ranges::reverse(runs_);
    return runs_;
  }

  // Of the last Run.
  Nanos again() const { return again_; }

 private:
  struct Making {
    Bytes peak = 0;  // of all that is held meanwhile
    Nanos time = 0;
    bool is_possible = false;
  };
  struct Offer {
    double price;  // of a byte
    UnitId unit;
  };

  void Hold(StorageId s) {
    if (workload_.IsState(s) || held_[s]) return;
    held_[s] = true;
    used_ += workload_.bytes[s];
  }
  void Release(StorageId s) {
    if (!held_[s]) return;
    held_[s] = false;
    used_ -= workload_.bytes[s];
  }

  OpId LastPart(const Unit& unit) const {
    return std::prev(std::ranges::lower_bound(unit.parts, stage_, {}, &Unit::Part::op))->op;
  }

  // What it takes to make what the unit returns and is held, from all else that is held. `order_` has the runs then,
  // the last one first. Gives up where it takes longer than `most_time`.
  Making Make(UnitId first, double most_time) {
    ++count_;
    Making out;
    order_.clear();
    heap_.clear();
    Bytes now = used_;
    const auto open = [&](UnitId unit) {
      seen_[unit] = count_;
      heap_.emplace_back(LastPart(units_.units[unit]).index(), unit.index());
      std::ranges::push_heap(heap_);
    };
    open(first);
    while (!heap_.empty()) {
      std::ranges::pop_heap(heap_);
      const UnitId id(heap_.back().second);
      heap_.pop_back();
      const Unit& unit = units_.units[id];
      --work_;
      if (order_.size() >= kMostBehind) return out;
      order_.push_back(id);
      const auto part = std::prev(std::ranges::lower_bound(unit.parts, stage_, {}, &Unit::Part::op));
      out.time += part->time;
      if (static_cast<double>(out.time) > most_time) return out;
      Bytes beside = part->scratch, gone = 0;
      for (const StorageId s : unit.returns) {
        const bool is_there = id == first ? held_[s] != 0 : added_[s] == count_;
        (is_there ? gone : beside) += workload_.bytes[s];
      }
      for (const Unit::Need& need : unit.needs) {
        if (need.since >= stage_) break;
        const StorageId s = need.storage;
        const UnitId maker = units_.of[s];
        if ((held_[s] && maker != first) || added_[s] == count_) continue;
        if (!maker.valid() || seen_[maker] == count_ || !MayRun(maker)) {
          // Of a unit that is open already it is one more; one that is behind us would have to run twice.
          const auto is_it = [&](const auto& entry) { return entry.second == maker.index(); };
          if (!maker.valid() || std::ranges::none_of(heap_, is_it)) return out;
        } else {
          open(maker);
        }
        added_[s] = count_;
        now += workload_.bytes[s];
      }
      out.peak = std::max(out.peak, now + beside);
      if (out.peak > room_) return out;
      now -= gone;
    }
    out.is_possible = true;
    return out;
  }

  bool MayRun(UnitId id) const {
    const Unit& unit = units_.units[id];
    return unit.maker() < stage_ && stage_ <= unit.last_stage;
  }

  // The price of each byte that the unit would free, by the stages for which it would; infinite: it cannot, or the
  // price is above `most`.
  double PriceOf(UnitId id, double most) {
    Bytes bytes = 0;
    std::size_t since = 0;
    for (const StorageId s : units_.units[id].returns) {
      if (!held_[s]) continue;
      if (locked_[s]) return HUGE_VAL;
      bytes += workload_.bytes[s];
      const auto uses = workload_.uses[s];
      const auto next = std::ranges::lower_bound(uses, stage_);
      since = std::max(since, next == uses.begin() ? 0 : std::prev(next)->index());
    }
    if (bytes == 0) return HUGE_VAL;
    const double freed = static_cast<double>(bytes) * std::sqrt(static_cast<double>(stage_.index() - since));
    const Making making = Make(id, most * freed);
    making_time_ = making.time;
    return making.is_possible ? static_cast<double>(making.time + 1) / freed : HUGE_VAL;
  }

  // Behind PriceOf.
  void MakeHere(UnitId id) {
    again_ += making_time_;
    for (const UnitId unit : order_) runs_.push_back({stage_, unit});
    for (const StorageId s : units_.units[id].returns) Release(s);
  }

  // Makes here what is cheapest to make, until no more than `wanted` is held or nothing can be made.
  void Shrink(Bytes wanted, double luck, Random& random) {
    while (used_ > wanted && work_ > 0 && runs_.size() <= kMostRunsPerOp * workload_.ops()) {
      std::vector<Offer> offers;
      double most = HUGE_VAL;  // only what is not much dearer than the cheapest is of interest now
      for (const StorageId s : workload_.storage_ids()) {
        if (!held_[s] || !units_.of[s].valid() || !MayRun(units_.of[s])) continue;
        const UnitId unit = units_.of[s];
        const double price = PriceOf(unit, most);
        if (price == HUGE_VAL) continue;
        most = std::min(most, kDearest * price);
        offers.push_back({price * std::exp(luck * (2 * random.Uniform() - 1)), unit});
      }
      if (offers.empty()) return;
      std::ranges::sort(offers, {}, [](const Offer& offer) { return std::pair(offer.price, offer.unit.index()); });
      for (std::size_t i = 0; i < offers.size() && used_ > wanted; ++i) {
        // Nothing was made since the first offer's price was found; the others may be dearer by now.
        const double price = PriceOf(offers[i].unit, HUGE_VAL);
        if (price == HUGE_VAL) continue;
        if (i > 0 && (price > most || price * std::exp(-luck) > kStale * offers[i].price)) break;
        MakeHere(offers[i].unit);
      }
    }
  }

  const Problem& problem_;
  const sim::Workload& workload_;
  const Units& units_;
  Bytes room_, used_ = 0;
  Nanos again_ = 0, making_time_ = 0;
  std::int64_t& work_;
  OpId stage_{0};
  IdVector<StorageId, std::uint8_t> held_, locked_;
  IdVector<UnitId, std::uint32_t> seen_;
  IdVector<StorageId, std::uint32_t> added_;
  std::uint32_t count_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> heap_;  // units by their last parts
  std::vector<UnitId> order_;
  std::vector<RunAgain> runs_;
};

}  // namespace

std::optional<std::vector<RunAgain>> BackwardRuns(const Problem& problem, const Units& units, Bytes budget, int tries,
                                                  std::int64_t& work) {
  Backward backward(problem, units, budget, work);
  std::optional<std::vector<RunAgain>> best;
  Nanos time = 0;
  for (int i = 0; i < tries; ++i) {
    for (const double free : kFree) {
      if (work <= 0) return best;
      std::optional<std::vector<RunAgain>> runs = backward.Run(free, i == 0 ? 0 : kLuck, static_cast<std::uint64_t>(i));
      if (!runs) continue;
      if (!best || backward.again() < time) best = std::move(runs), time = backward.again();
      break;  // with more room free, more is made again
    }
  }
  return best;
}

std::optional<std::vector<RunAgain>> LowestBackwardRuns(const Problem& problem, const Units& units, Bytes floor,
                                                        Bytes known) {
  std::optional<std::vector<RunAgain>> best;
  Bytes low = floor - 1, high = known;
  for (int i = 0; i < kHalvings && high - low > high / 200 && !IsLate(problem); ++i) {
    const Bytes middle = low + (high - low) / 2;
    std::int64_t work = kBackwardWork / 2;
    if (std::optional<std::vector<RunAgain>> runs = BackwardRuns(problem, units, middle, 1, work)) {
      best = std::move(runs);
      high = middle;
    } else {
      low = middle;
    }
  }
  return best;
}

}  // namespace ebbtide::plan
