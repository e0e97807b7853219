// What must wait for what: operations on some streams touch memory, and two that touch the same bytes, one of them
// writing, have to be ordered. Gives the waits that are missing, and none that others imply.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace ebbtide::run {

// Bytes that an operation touches, of a device's or of the host's memory.
struct Touch {
  std::uint64_t begin = 0, end = 0;
  bool writes = false;
};

// By stream: how many of its operations. Those come before whatever the clock belongs to.
class StreamClock {
 public:
  std::uint64_t operator[](int stream) const {
    return static_cast<std::size_t>(stream) < counts_.size() ? counts_[static_cast<std::size_t>(stream)] : 0;
  }
  void Set(int stream, std::uint64_t count) {
    if (static_cast<std::size_t>(stream) >= counts_.size()) counts_.resize(static_cast<std::size_t>(stream) + 1);
    counts_[static_cast<std::size_t>(stream)] = count;
  }
  void Raise(int stream, std::uint64_t count) {
    if (count > (*this)[stream]) Set(stream, count);
  }
  void Join(const StreamClock& other) {
    for (int s = 0; s < other.size(); ++s) Raise(s, other[s]);
  }
  // One past the last stream that has a count; those behind it have 0.
  int size() const { return static_cast<int>(counts_.size()); }

 private:
  std::vector<std::uint64_t> counts_;
};

class AccessOrder {
 public:
  using Clock = StreamClock;

  // Returns the number of the new stream; the first is 0.
  int AddStream();

  // What the next operation of `stream` has to wait for, if it touches this memory: of each stream, how many of its
  // first operations; 0: none.
  Clock Needed(int stream, std::span<const Touch> touches) const;
  // What follows on `stream` comes after all that the clock counts.
  void Join(int stream, const Clock& clock) { clocks_[static_cast<std::size_t>(stream)].Join(clock); }
  // The host has waited for all of the stream. So whatever is submitted from now on, to any stream, comes after it.
  void HostWaited(int stream);
  // The next operation of `stream` touches this memory. Its waits have been told by Join.
  void Add(int stream, std::span<const Touch> touches);
  // What comes before whatever is submitted to `stream` next.
  const Clock& Of(int stream) const { return clocks_[static_cast<std::size_t>(stream)]; }
  // Forgets the operations that the host has waited for: nothing has to wait for them any more.
  void Prune();

 private:
  struct Piece {
    std::uint64_t end = 0;
    int writer = 0;
    std::uint64_t write = 0;  // the last write: its number on the writer's stream; 0: there was none
    Clock reads;              // that came after it
  };
  // Makes `at` a border between pieces.
  void Split(std::uint64_t at);

  std::vector<Clock> clocks_;              // by stream
  Clock over_;                             // what the host has waited for
  std::map<std::uint64_t, Piece> pieces_;  // by begin; they do not overlap
};

}  // namespace ebbtide::run
