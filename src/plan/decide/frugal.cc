// Follows the step with the storages that are on the device; what is worth least for its bytes goes when room is
// needed, and comes back by Reach().
#include "plan/decide/frugal.h"

#include <algorithm>
#include <array>

#include "plan/decide/reach.h"

namespace ebbtide::plan {
namespace {

constexpr std::size_t kMostRunsPerOp = 24;       // on average; beyond it the schedule is of no use to anybody
constexpr int kMostBehind = 48;                  // units that are counted into the cost of making one again
constexpr std::int64_t kSetsWhileKeeping = 300;  // looked at to bring what an op lacks, while others are to stay
constexpr std::size_t kTries = 24;               // where only what the op needs has to stay
constexpr std::size_t kNarrow = 16, kWide = 64;  // beams, of the first tries and of the others
constexpr double kLuck = 0.3;
constexpr std::array kThrifts = {1.0, 1.0, 3.0, 0.3, 0.1, 3.0};

class Frugal {
 public:
  Frugal(const Problem& problem, const Units& units, Bytes budget, std::int64_t& work)
      : problem_(problem),
        workload_(*problem.workload),
        units_(units),
        room_(budget),
        work_(work),
        there_(workload_.storages(), false),
        next_use_(workload_.storages(), 0),
        locked_(workload_.storages(), false),
        seen_(workload_.storages(), 0) {
    for (const StorageId s : workload_.storage_ids()) {
      if (workload_.IsState(s)) {
        room_ -= workload_.bytes[s];
      } else if (workload_.outlives[s]) {
        outlive_.push_back(s);
      }
    }
  }

  std::optional<std::vector<RunAgain>> Run() {
    for (stage_ = OpId(0); stage_ < workload_.time.end_id(); ++stage_) {
      if (IsLate(problem_)) return std::nullopt;
      const auto needs = workload_.needs[stage_], births = workload_.births[stage_];
      if (!Bring(needs)) return std::nullopt;
      Bytes made = workload_.workspace[stage_];
      for (const StorageId s : births) made += workload_.bytes[s];
      Lock(needs, true);
      const bool fits = MakeRoom(made);
      Lock(needs, false);
      if (!fits) return std::nullopt;
      for (const StorageId s : births) Come(s);
      for (const auto list : {needs, births}) {
        for (const StorageId s : list) {
          ++next_use_[s];
          if (!workload_.IsState(s) && !IsWanted(s) && !units_.of[s].valid()) Go(s);
        }
      }
    }
    if (!Bring(outlive_)) return std::nullopt;
    return std::move(runs_);
  }

 private:
  void Come(StorageId s) {
    if (there_[s]) return;
    there_[s] = true;
    used_ += workload_.bytes[s];
    on_device_.push_back(s);
  }
  void Go(StorageId s) {
    if (!there_[s]) return;
    there_[s] = false;
    used_ -= workload_.bytes[s];
    on_device_.erase(std::ranges::find(on_device_, s));
  }
  void Lock(std::span<const StorageId> storages, bool value) {
    for (const StorageId s : storages) locked_[s] = value;
  }

  // The op that next needs it; the end where the step's end does, and behind that: nobody.
  OpId NextUse(StorageId s) const {
    const auto uses = workload_.uses[s];
    if (next_use_[s] < uses.size()) return uses[next_use_[s]];
    return workload_.outlives[s] ? workload_.time.end_id() : workload_.time.end_id().Next();
  }
  bool IsWanted(StorageId s) const { return NextUse(s) <= workload_.time.end_id(); }
  bool MayGo(StorageId s) const {
    if (locked_[s]) return false;
    if (!IsWanted(s)) return true;
    const UnitId unit = units_.of[s];
    return unit.valid() && NextUse(s) <= units_.units[unit].last_stage;
  }

  // The time of making it again with what is missing for that.
  Nanos CostOf(StorageId s) {
    ++count_;
    Nanos out = 0;
    std::vector<StorageId> open = {s};
    seen_[s] = count_;
    for (int i = 0; i < kMostBehind && !open.empty(); ++i) {
      const UnitId unit = units_.of[open.back()];
      open.pop_back();
      if (!unit.valid()) continue;
      out += units_.units[unit].parts.front().time;
      for (const Unit::Need& need : units_.units[unit].needs) {
        if (there_[need.storage] || seen_[need.storage] == count_) continue;
        seen_[need.storage] = count_;
        open.push_back(need.storage);
      }
    }
    return out;
  }

  // What it is worth to keep a byte of it.
  double WorthOf(StorageId s) {
    if (!IsWanted(s)) return 0;
    const Nanos distance = problem_.clock[NextUse(s)] - problem_.clock[std::min(stage_, workload_.time.end_id())] + 1;
    return static_cast<double>(CostOf(s) + 1) /
           (static_cast<double>(std::max<Bytes>(workload_.bytes[s], 1)) * static_cast<double>(distance));
  }

  // What may go, the least worth first.
  std::vector<StorageId> ByWorth() {
    std::vector<std::pair<double, StorageId>> order;
    for (const StorageId s : on_device_) {
      if (MayGo(s)) order.emplace_back(WorthOf(s), s);
    }
    std::ranges::sort(order);
    std::vector<StorageId> out;
    for (const auto& [worth, s] : order) out.push_back(s);
    return out;
  }

  bool MakeRoom(Bytes bytes) {
    if (used_ + bytes <= room_) return true;
    for (const StorageId s : ByWorth()) {
      Go(s);
      if (used_ + bytes <= room_) return true;
    }
    return false;
  }

  // The storages come to the device, with as much of what is there staying as can.
  bool Bring(std::span<const StorageId> wanted) {
    const auto is_there = [&](StorageId s) { return workload_.IsState(s) || there_[s]; };
    if (std::ranges::all_of(wanted, is_there)) return true;
    std::vector<StorageId> fixed;
    Lock(wanted, true);
    const std::vector<StorageId> order = ByWorth();
    for (const StorageId s : on_device_) {
      if (!MayGo(s)) fixed.push_back(s);
    }
    Lock(wanted, false);
    fixed.insert(fixed.end(), wanted.begin(), wanted.end());
    const auto way = [&](std::size_t leaving, const ReachOptions& how, std::int64_t* found = nullptr) {
      std::vector<StorageId> all = fixed;
      all.insert(all.end(), order.begin() + static_cast<std::ptrdiff_t>(leaving), order.end());
      return Reach(problem_, units_, there_, all, how, found);
    };
    std::optional<Reached> best;
    std::size_t low = 0, high = order.size();  // to leave: with `high` of them there is a way
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      std::optional<Reached> found = way(middle, {.stage = stage_, .room = room_, .most_sets = kSetsWhileKeeping});
      if (found) {
        best = std::move(found);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    for (std::size_t i = 0; i < kTries && !best && work_ > 0; ++i) {
      std::int64_t found = 0;
      best = way(order.size(),
                 {.stage = stage_,
                  .room = room_,
                  .most_sets = work_,
                  .beam = i < 4 ? kNarrow : kWide,
                  .thrift = kThrifts[i % kThrifts.size()],
                  .luck = i < kThrifts.size() ? 0 : kLuck,
                  .seed = i,
                  .may_drop = i % 2 == 1},
                 &found);
      work_ -= found;
    }
    return best && Follow(*best);
  }

  bool Follow(const Reached& reached) {
    for (const Reached::Step& step : reached.steps) {
      if (runs_.size() > kMostRunsPerOp * workload_.ops()) return false;
      const Unit& unit = units_.units[step.unit];
      const auto part = std::prev(std::ranges::lower_bound(unit.parts, stage_, {}, &Unit::Part::op));
      std::vector<StorageId> needs;
      Bytes made = part->scratch;
      for (const Unit::Need& need : unit.needs) {
        if (need.since < stage_) needs.push_back(need.storage);
      }
      for (const StorageId s : unit.returns) made += there_[s] ? 0 : workload_.bytes[s];
      Lock(needs, true);
      Lock(step.needed, true);
      Lock(unit.returns, true);
      const bool fits = MakeRoom(made);
      Lock(needs, false);
      Lock(step.needed, false);
      Lock(unit.returns, false);
      if (!fits) return false;
      for (const StorageId s : unit.returns) Come(s);
      runs_.push_back({stage_, step.unit});
    }
    return true;
  }

  const Problem& problem_;
  const sim::Workload& workload_;
  const Units& units_;
  Bytes room_, used_ = 0;
  std::int64_t& work_;
  OpId stage_{0};
  IdVector<StorageId, bool> there_;
  IdVector<StorageId, std::uint32_t> next_use_;  // into uses
  IdVector<StorageId, bool> locked_;
  IdVector<StorageId, std::uint32_t> seen_;
  std::uint32_t count_ = 0;
  std::vector<StorageId> on_device_, outlive_;
  std::vector<RunAgain> runs_;
};

}  // namespace

std::optional<std::vector<RunAgain>> FrugalRuns(const Problem& problem, const Units& units, Bytes budget,
                                                std::int64_t& work) {
  return Frugal(problem, units, budget, work).Run();
}

}  // namespace ebbtide::plan
