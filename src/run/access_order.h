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
  // Streams from there on count 0.
  int size() const { return static_cast<int>(counts_.size()); }

 private:
  std::vector<std::uint64_t> counts_;
};

class AccessOrder {
 public:
  using Clock = StreamClock;

  // Streams have numbers from 0 on.
  int AddStream();

  // By stream: up to which of its operations the next one of `stream` has to wait; 0: for none.
  Clock Needed(int stream, std::span<const Touch> touches) const;
  // `stream` waits for what has this clock.
  void Join(int stream, const Clock& clock) { clocks_[static_cast<std::size_t>(stream)].Join(clock); }
  // The host has waited for the stream: so has all that is submitted from now on.
  void HostWaited(int stream);
  // Adds the next operation of `stream`, after what it waits for.
  void Add(int stream, std::span<const Touch> touches);
  // Of what follows on the stream.
  const Clock& Of(int stream) const { return clocks_[static_cast<std::size_t>(stream)]; }
  // Forgets whatever the host has waited for.
  void Prune();

 private:
  struct Piece {
    std::uint64_t end = 0;
    int writer = 0;
    std::uint64_t write = 0;  // its number on the writer's stream; 0: none
    Clock reads;              // since then
  };
  // Makes `at` a border between pieces.
  void Split(std::uint64_t at);

  std::vector<Clock> clocks_;              // by stream
  Clock over_;                             // what the host has waited for
  std::map<std::uint64_t, Piece> pieces_;  // by begin; they do not overlap
};

}  // namespace ebbtide::run
