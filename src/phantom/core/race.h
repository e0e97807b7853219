// A checker of the order between accesses to device memory: two accesses to the same bytes, one of them a write, from
// two streams between which nothing makes one wait for the other, are a race, whether or not it shows in this run. So
// is the use of memory after it was freed, in whatever order.
//
// It follows the program as it is submitted. Every stream has a vector clock: how many operations of each stream are
// over before its next operation can begin. Events carry clocks from stream to stream, and to the host when the host
// waits; what the host submits afterwards begins after all that the host knows to be over. The host counts as one, so a
// wait by one thread also orders what its other threads submit: a race that needs two host threads can go unseen.
//
// Of accesses that are ordered among themselves the last one stands for all: with r1 and r2 in one stream and an
// unordered w in another, the race of r2 and w is told, that of r1 and w is not.
//
// Thread-safe. Streams are small integers from StreamCreated.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "phantom/core/race_shadow.h"

namespace ebbtide::phantom {

class RaceChecker {
 public:
  using Clock = std::vector<std::uint64_t>;  // by stream; missing ones are 0

  struct Site {
    int stream = -1;              // -1: the host
    std::uint64_t operation = 0;  // of that stream, from 1
    AccessKind kind = AccessKind::kRead;
    std::string name;   // the call or op
    std::string frame;  // where in the program, if it is known
  };
  struct Race {
    Site first, second;  // in the order of submission
    std::uint64_t begin = 0;
    Bytes bytes = 0;         // of the overlap
    std::int64_t count = 1;  // pairs of operations with these names and frames; the first of them is described
  };

  // Returns the number of the stream. Numbers of destroyed streams are used again.
  int StreamCreated();
  // There will be no more operations of it.
  void StreamDestroyed(int stream);

  Clock Recorded(int stream);  // what a wait for an event recorded now lets the waiter know
  void StreamWaits(int stream, const Clock& clock);
  void HostWaits(const Clock& clock);
  void HostSynchronized(int stream);
  void DeviceSynchronized();

  // The host asked and was told that it is over, but the program may have gone the same way without that answer, as an
  // allocator does that asks at every request. It orders accesses to pinned memory, and what Released names.
  void HostSaw(const Clock& clock);
  void HostSawStream(int stream);

  // The next operation of `stream`, with all that it touches.
  void Operation(int stream, std::string_view name, std::string_view frame, std::span<const Access> accesses);
  // The host gives the bytes back, or unmaps them, without waiting: whatever it does not know to be over is a race.
  void Freed(std::uint64_t begin, Bytes bytes, std::string_view name, std::string_view frame);
  // Memory is there that has nothing to do with what was at these addresses before.
  void Allocated(std::uint64_t begin, Bytes bytes);
  // An allocator of the program takes the bytes back, knowing what the host has waited for or seen.
  void Released(std::uint64_t begin, Bytes bytes);

  std::vector<Race> races() const;  // at most kKept, the earliest
  std::int64_t race_count() const;  // all, one per pair of operations
  std::int64_t access_count() const;
  std::size_t cell_count() const;

  static constexpr std::size_t kKept = 1000;

 private:
  using Entry = RaceShadow::Entry;
  struct Names {
    std::string name, frame;
  };
  struct Stream {
    Clock clock;
    std::uint64_t host_version = 0;  // of host_, when it was last joined
    int number = 0;                  // as reported: slots are used again
  };

  void Join(Clock& into, const Clock& from);
  void HostKnows(const Clock& clock);
  void BeginsAfterHost(Stream& stream);
  static bool Covers(const Clock& clock, const Entry& entry);
  std::uint32_t SiteOf(std::string_view name, std::string_view frame);
  void Touch(const Access& access, const Entry& now, const Clock& clock);
  void Report(const Entry& earlier, const Entry& later, std::uint64_t begin, std::uint64_t end);
  Site Describe(const Entry& entry) const;
  void SweepIfLarge();

  mutable std::mutex mutex_;
  std::vector<Stream> streams_;
  std::vector<int> unused_;  // slots of destroyed streams
  int next_number_ = 0;
  Clock host_;  // what the host has waited for
  Clock seen_;  // that, and what queries told it
  std::uint64_t host_version_ = 1;

  RaceShadow shadow_;
  std::size_t sweep_at_ = 4096;
  std::vector<Names> sites_;
  std::unordered_map<std::string, std::uint32_t> site_ids_;  // by name, '\n', frame
  std::string key_;                                          // kept for its capacity

  std::vector<Race> races_;
  std::map<std::tuple<std::uint32_t, AccessKind, std::uint32_t, AccessKind>, std::size_t> known_;  // index into races_
  std::set<std::pair<int, std::uint64_t>> told_;  // what the present operation was already said to race with
  std::int64_t race_count_ = 0;
  std::int64_t access_count_ = 0;
};

}  // namespace ebbtide::phantom
