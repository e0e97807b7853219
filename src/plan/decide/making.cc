// Goes backwards through the runs that make something, the one first after which least is held.
#include "plan/decide/making.h"

#include <algorithm>
#include <cmath>

namespace ebbtide::plan {
namespace {

constexpr std::size_t kMostRunsPerOp = 60;  // on average; beyond it the schedule is of no use to anybody
constexpr int kDepth = 3;                   // of making within making
constexpr double kDearest = 20;             // what is so many times dearer than the cheapest is not looked at further

}  // namespace

Making::Making(const Problem& problem, const Units& units, Bytes budget)
    : problem_(problem),
      workload_(*problem.workload),
      units_(units),
      room_(budget),
      level_(workload_.storages(), 0),
      locked_(workload_.storages(), false),
      seen_(units.units.size(), 0),
      leaving_(units.units.size(), 0) {
  for (const StorageId s : workload_.storage_ids()) {
    if (workload_.IsState(s)) room_ -= workload_.bytes[s];
  }
}

bool Making::IsTooMuch() const { return work_ <= 0 || runs_.size() > kMostRunsPerOp * workload_.ops(); }

void Making::Hold(StorageId s, Level level) {
  level_[s] = level;
  used_ += workload_.bytes[s];
}

void Making::Release(StorageId s) {
  if (level_[s] == 0) return;
  level_[s] = 0;
  used_ -= workload_.bytes[s];
}

bool Making::MayRun(UnitId id) const {
  const Unit& unit = units_.units[id];
  return unit.maker() < stage_ && stage_ <= unit.last_stage;
}

const Unit::Part& Making::LastPart(const Unit& unit) const {
  return *std::prev(std::ranges::lower_bound(unit.parts, stage_, {}, &Unit::Part::op));
}

template <class Visit>
void Making::ForNeeds(const Unit& unit, const Visit& visit) const {
  for (const Unit::Need& need : unit.needs) {
    if (need.since >= stage_) break;
    visit(need.storage);
  }
}

double Making::Grow(UnitId first, double most, std::vector<UnitId>& out) {
  const std::size_t before = out.size();
  double time = 0;
  bool is_possible = seen_[first] != count_;
  if (!is_possible) return 0;
  seen_[first] = count_;
  out.push_back(first);
  for (std::size_t i = before; i < out.size() && is_possible && time <= most; ++i) {
    const Unit& unit = units_.units[out[i]];
    time += static_cast<double>(LastPart(unit).time);
    --work_;
    ForNeeds(unit, [&](StorageId s) {
      const UnitId maker = units_.of[s];
      if (IsBase(s)) return;
      if (!maker.valid() || !MayRun(maker)) {
        is_possible = false;
      } else if (seen_[maker] != count_) {
        seen_[maker] = count_;
        out.push_back(maker);
      }
    });
  }
  if (is_possible && time <= most) return time;
  for (std::size_t i = before; i < out.size(); ++i) seen_[out[i]] = 0;
  out.resize(before);
  return is_possible ? time : -1;
}
bool Making::IsBase(StorageId s) const {
  if (level_[s] == 0) return false;
  const UnitId maker = units_.of[s];
  return !maker.valid() || leaving_[maker] != leaving_count_;
}

void Making::Leave(const std::vector<UnitId>& units) {
  ++leaving_count_;
  for (const UnitId unit : units) leaving_[unit] = leaving_count_;
}

void Making::Shrink(Bytes wanted, const std::vector<UnitId>& units, Level level,
                    const std::function<double(StorageId)>& length) {
  while (used_ > wanted && !IsTooMuch()) {
    std::vector<Offer> offers;
    std::vector<UnitId> behind;
    double least = HUGE_VAL;
    for (const UnitId id : units) {
      Bytes bytes = 0;
      double longest = 0;
      bool is_locked = false;
      for (const StorageId s : units_.units[id].returns) {
        if (level_[s] != level) continue;
        is_locked |= locked_[s] != 0;
        bytes += workload_.bytes[s];
        const double l = length(s);
        longest = longest == 0 ? l : std::min(longest, l);
      }
      if (bytes == 0 || is_locked || longest <= 0) continue;
      const double worth = static_cast<double>(bytes) * std::sqrt(longest);
      Leave({id});
      ++count_;
      behind.clear();
      const double time = Grow(id, least * kDearest * worth, behind);
      if (behind.empty()) continue;
      const double price = (time + 1) / worth;
      least = std::min(least, price);
      offers.push_back({price * std::exp(how_.luck * (2 * random_.Uniform() - 1)), worth, id});
    }
    std::ranges::sort(offers, {}, [](const Offer& offer) { return std::pair(offer.price, offer.unit.index()); });
    bool is_made = false;
    for (std::size_t i = 0; i < offers.size() && !is_made && !IsTooMuch(); ++i) {
      const std::vector<UnitId> together = Together(offers, i);
      is_made = (together.size() > 1 && Make(together, level)) || Make({offers[i].unit}, level);
    }
    if (!is_made) return;
  }
}

std::vector<UnitId> Making::Together(const std::vector<Offer>& offers, std::size_t first) {
  std::vector<UnitId> behind;
  std::vector<UnitId> out = {offers[first].unit};
  if (how_.together == 0) return out;
  Leave(out);
  ++count_;
  double time = Grow(offers[first].unit, HUGE_VAL, behind), worth = offers[first].worth;
  for (std::size_t i = first + 1; i < offers.size(); ++i) {
    const double most = how_.together * time / worth * offers[i].worth;
    if (seen_[offers[i].unit] == count_) continue;
    leaving_[offers[i].unit] = leaving_count_;
    const std::size_t before = behind.size();
    const double more = Grow(offers[i].unit, most, behind);
    if (behind.size() == before) {
      leaving_[offers[i].unit] = 0;
      continue;
    }
    out.push_back(offers[i].unit);
    time += more;
    worth += offers[i].worth;
  }
  return out;
}

bool Making::Make(const std::vector<UnitId>& wanted, Level level) {
  if (level > kDepth) return false;
  const Level own = level + 1;
  const std::size_t runs_before = runs_.size();
  const Nanos again_before = again_;
  Leave(wanted);
  ++count_;
  std::vector<UnitId> behind;
  for (const UnitId unit : wanted) Grow(unit, HUGE_VAL, behind);
  // How many runs that are still to be gone through take something of it.
  Takers takers;
  for (const UnitId unit : behind) takers[unit.index()];
  for (const UnitId unit : behind) {
    ForNeeds(units_.units[unit], [&](StorageId s) {
      if (!IsBase(s)) ++takers[units_.of[s].index()];
    });
  }
  std::vector<StorageId> raised, held;
  for (const UnitId unit : wanted) {
    for (const StorageId s : units_.units[unit].returns) {
      if (level_[s] == level) level_[s] = own, raised.push_back(s);
    }
  }
  std::vector<UnitId> ready;
  for (const UnitId unit : wanted) {
    if (takers[unit.index()] == 0) ready.push_back(unit);
  }
  std::size_t gone = 0;
  while (!ready.empty()) {
    const auto [place, need] = Cheapest(ready, own);
    const UnitId id = ready[place];
    const Unit& unit = units_.units[id];
    if (used_ + need > room_ && !MakeRoom(unit, need, behind, takers, own)) break;
    if (IsTooMuch()) break;
    ready[place] = ready.back();
    ready.pop_back();
    ++gone;
    runs_.push_back({stage_, id});
    again_ += LastPart(unit).time;
    takers[id.index()] = -1;
    for (const StorageId s : unit.returns) {
      if (level_[s] == own) Release(s);
    }
    ForNeeds(unit, [&](StorageId s) {
      const UnitId maker = units_.of[s];
      const auto count = maker.valid() ? takers.find(maker.index()) : takers.end();
      if (level_[s] == 0) Hold(s, own), held.push_back(s);
      if (level_[s] == own && count != takers.end() && --count->second == 0) ready.push_back(maker);
    });
  }
  if (gone == behind.size()) return true;
  for (const StorageId s : held) {
    if (level_[s] == own) Release(s);
  }
  for (const StorageId s : raised) {
    if (level_[s] == 0) Hold(s, level);
    level_[s] = level;
  }
  runs_.resize(runs_before);
  again_ = again_before;
  return false;
}

Bytes Making::NeedOf(const Unit& unit, Level own, Bytes& returned) {
  Bytes more = LastPart(unit).scratch;
  returned = 0;
  for (const StorageId s : unit.returns) (level_[s] == own ? returned : more) += workload_.bytes[s];
  ForNeeds(unit, [&](StorageId s) { more += level_[s] == 0 ? workload_.bytes[s] : 0; });
  --work_;
  return more;
}
std::pair<std::size_t, Bytes> Making::Cheapest(const std::vector<UnitId>& ready, Level own) {
  std::size_t best = 0;
  Bytes least = 0, need = 0;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    Bytes returned = 0;
    const Bytes more = NeedOf(units_.units[ready[i]], own, returned);
    if (i > 0 && std::pair(more - returned, ready[best].index()) >= std::pair(least, ready[i].index())) continue;
    best = i, least = more - returned, need = more;
  }
  return {best, need};
}

bool Making::MakeRoom(const Unit& unit, Bytes need, const std::vector<UnitId>& behind, const Takers& takers,
                      Level own) {
  if (own > kDepth) return false;
  std::vector<UnitId> units;
  for (const UnitId id : behind) {
    if (takers.at(id.index()) <= 0) continue;
    if (std::ranges::any_of(units_.units[id].returns, [&](StorageId s) { return level_[s] == own; }))
      units.push_back(id);
  }
  std::vector<StorageId> locked;
  ForNeeds(unit, [&](StorageId s) {
    if (!locked_[s]) locked.push_back(s);
  });
  SetLocked(locked, true);
  const std::size_t now = unit.maker().index();
  Shrink(room_ - need, units, own, [&](StorageId s) {
    const std::size_t made = workload_.born[s].index();
    return static_cast<double>(now > made ? now - made : 1);
  });
  SetLocked(locked, false);
  return used_ + need <= room_;
}

}  // namespace ebbtide::plan
