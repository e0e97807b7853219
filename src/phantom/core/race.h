// A checker of the order between accesses to device memory: two accesses to the same bytes, one of them a write, from
// two streams between which nothing makes one wait for the other, are a race, whether or not it shows in this run.
//
// It follows the program as it is submitted. Every stream has a vector clock: how many operations of each stream are
// over before its next operation can begin. Events carry clocks from stream to stream, and to the host when the host
// waits; what the host submits afterwards begins after all that the host knows to be over. The host counts as one, so a
// wait by one thread also orders what its other threads submit: a race that needs two host threads can go unseen.
//
// Thread-safe. Streams are small integers from StreamCreated.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace ebbtide::phantom {

class RaceChecker {
 public:
  using Clock = std::vector<std::uint64_t>;  // by stream; missing ones are 0

  struct Site {
    int stream = -1;              // -1: the host
    std::uint64_t operation = 0;  // of that stream, from 1
    bool is_write = false;
    std::string name;   // the call or op
    std::string frame;  // where in the program, if it is known
  };
  struct Race {
    Site first, second;  // in the order of submission
    std::uint64_t begin = 0;
    Bytes bytes = 0;  // of the overlap
  };

  int StreamCreated();
  void StreamDestroyed(int stream);

  Clock Recorded(int stream);  // what a wait for an event recorded now lets the waiter know
  void StreamWaits(int stream, const Clock& clock);
  void HostWaits(const Clock& clock);
  void HostSynchronized(int stream);
  void DeviceSynchronized();

  // The next operation of `stream` touches these bytes. Accesses between two calls of NextOperation are of one operation.
  void NextOperation(int stream);
  void Access(int stream, std::uint64_t begin, Bytes bytes, bool is_write, std::string_view name, std::string_view frame);
  // The host gives the bytes back, or unmaps them, without waiting: whatever it does not know to be over is a race.
  void Freed(std::uint64_t begin, Bytes bytes, std::string_view name, std::string_view frame);

  std::vector<Race> races() const;  // at most kKept, the earliest
  std::int64_t race_count() const;  // all, one per pair of operations
  std::int64_t access_count() const;

  static constexpr std::size_t kKept = 1000;

 private:
  struct Shadow {  // of bytes that have been accessed alike
    std::uint64_t end = 0;
    int last_write = -1;             // index into sites_; -1: none
    std::vector<int> reads;          // since then, the last of each stream
  };

  void Join(Clock& into, const Clock& from);
  bool Ordered(const Site& earlier, const Clock& clock) const;
  void Report(int earlier, int later, std::uint64_t begin, std::uint64_t end);
  std::map<std::uint64_t, Shadow>::iterator SplitAt(std::uint64_t address);

  mutable std::mutex mutex_;
  std::vector<Clock> streams_;
  Clock host_;
  std::vector<Site> sites_;
  std::map<std::uint64_t, Shadow> shadows_;  // by begin, disjoint
  std::vector<Race> races_;
  std::vector<std::pair<int, int>> reported_;  // the latest pairs, so that one pair counts once
  std::int64_t race_count_ = 0;
  std::int64_t access_count_ = 0;
};

}  // namespace ebbtide::phantom
