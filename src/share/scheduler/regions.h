// Who has which addresses of the shared memory: the jobs' own state, and the lanes they take turns in.
#pragma once

#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/units.h"

namespace ebbtide::share {

using LaneId = Id<struct LaneTag>;

// Lanes lie as low as they fit, state as high: what is free between them is a lane's to grow into.
class Regions {
 public:
  struct Lane {
    bool open = false;
    Bytes begin = 0;
    Bytes need = 0;    // the largest peak of its jobs: it never has less
    Bytes useful = 0;  // more would be of no use to them
    Bytes size = 0;    // that it has now; its owner moves it to its target when nothing is at the top
  };

  // Sizes are multiples of the alignment.
  Regions(Bytes capacity, Bytes alignment) : capacity_(capacity), alignment_(alignment) {}

  // The place of a job's state; nullopt: there is no gap for it.
  std::optional<Bytes> AddState(Bytes bytes);
  void RemoveState(Bytes begin);

  // Returns nothing where there is no gap for it.
  std::optional<LaneId> OpenLane(Bytes need);
  // Makes sure that the lane can have `need` bytes. Returns false where what lies above it is in the way.
  bool Require(LaneId lane, Bytes need);
  // `need` is at most what it was.
  void SetNeed(LaneId lane, Bytes need, Bytes useful) {
    lanes_[lane.index()].need = need, lanes_[lane.index()].useful = useful;
  }
  void CloseLane(LaneId lane) { lanes_[lane.index()] = {}; }

  // The size a lane is to have: up to what is useful, as far as there is room.
  Bytes Target(LaneId lane) const;
  void Resize(LaneId lane) { lanes_[lane.index()].size = Target(lane); }
  // No lane reaches into these bytes now.
  bool IsClear(Bytes begin, Bytes bytes) const;

  const std::vector<Lane>& lanes() const { return lanes_; }  // by LaneId
  const Lane& lane(LaneId id) const { return lanes_[id.index()]; }
  Bytes capacity() const { return capacity_; }
  // State and what the lanes need.
  Bytes taken() const;

 private:
  struct Span {
    Bytes begin, end;
    auto operator<=>(const Span&) const = default;
  };
  std::vector<Span> Gaps() const;

  Bytes capacity_, alignment_;
  std::vector<Lane> lanes_;
  std::vector<Span> states_;
};

}  // namespace ebbtide::share
