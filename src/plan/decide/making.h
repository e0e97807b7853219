// Decisions from the end of the step to its beginning: what has to be there at a moment, and how some of it is made at
// that moment from the rest, so that it need not have been there before.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/decide/retention.h"
#include "plan/search/position.h"

namespace ebbtide::plan {

class Making {
 public:
  struct How {
    double together = 0;  // what adds no more than this share of the price so far is made in the same go; 0: one by one
    double luck = 0;      // what chance does to the prices
    std::uint64_t seed = 0;
  };

 protected:
  using Level = std::uint8_t;  // 0: not held; 1: by the first runs; else by what is being made at that depth

  // Problem and units must outlive it.
  Making(const Problem& problem, const Units& units, Bytes budget);

  void Hold(StorageId s, Level level);
  void Release(StorageId s);
  template <class Storages>
  void SetLocked(const Storages& storages, bool value) {
    for (const StorageId s : storages) locked_[s] = value;
  }
  bool MayRun(UnitId id) const;
  // Makes at this moment what is cheapest to make of what `level` holds, until no more than `wanted` is held or nothing
  // can be made. `length`: for how long a storage need not be there then.
  void Shrink(Bytes wanted, const std::vector<UnitId>& units, Level level,
              const std::function<double(StorageId)>& length);
  // There is no work left, or too much runs again.
  bool IsTooMuch() const;

  const Problem& problem_;
  const sim::Workload& workload_;
  const Units& units_;
  How how_;
  Random random_{0};
  Bytes room_, used_ = 0;  // for what is held, without state
  std::int64_t work_ = 0;  // units that may still be looked at
  OpId stage_{0};          // of this moment
  IdVector<StorageId, Level> level_;
  IdVector<StorageId, std::uint8_t> locked_;  // has to be there at this moment
  std::vector<RunAgain> runs_;                // the last one first
  Nanos again_ = 0;                           // their time

 private:
  struct Offer {
    double price;  // of a byte, by the time for which it is free
    double worth;  // bytes by that time
    UnitId unit;
  };
  // By unit, of those that are gone through: runs that are still to be gone through and take something of it.
  using Takers = std::unordered_map<std::size_t, int>;

  const Unit::Part& LastPart(const Unit& unit) const;
  template <class Visit>
  void ForNeeds(const Unit& unit, const Visit& visit) const;
  // Adds to `out` the units that must run for this one and are not seen yet; their time. Negative: one of them cannot
  // run; more than `most`: it gave up, and marks are as they were.
  double Grow(UnitId first, double most, std::vector<UnitId>& out);
  // Held, and not of what is about to be made.
  bool IsBase(StorageId s) const;
  // What these return is about to be made.
  void Leave(const std::vector<UnitId>& units);
  // The offer, with others that cost little once it is made.
  std::vector<UnitId> Together(const std::vector<Offer>& offers, std::size_t first);
  // The units run at this moment: before it, what `level` holds of what they return need not be there. False: there is
  // no room for that, and nothing has changed.
  bool Make(const std::vector<UnitId>& wanted, Level level);
  // What is needed beside all that is held while the unit runs.
  Bytes NeedOf(const Unit& unit, Level own, Bytes& returned);
  // Of those that are ready, the one after which least is held, and what it needs.
  std::pair<std::size_t, Bytes> Cheapest(const std::vector<UnitId>& ready, Level own);
  // Room for one run among those of `own`: some of what others of them take later is made in turn.
  bool MakeRoom(const Unit& unit, Bytes need, const std::vector<UnitId>& behind, const Takers& takers, Level own);

  IdVector<UnitId, std::uint32_t> seen_;  // where it is count_
  std::uint32_t count_ = 0;
  IdVector<UnitId, std::uint32_t> leaving_;  // what they return is about to be made, where it is leaving_count_
  std::uint32_t leaving_count_ = 0;
};

}  // namespace ebbtide::plan
