// What must wait for what: operations on a few streams touch memory, and two that touch the same bytes, one of them
// writing, have to be ordered. Gives the waits that are missing, and none that others imply.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>

namespace ebbtide::run {

// Bytes that an operation touches, of a device's or of the host's memory.
struct Touch {
  std::uint64_t begin = 0, end = 0;
  bool writes = false;
};

class AccessOrder {
 public:
  static constexpr int kStreams = 3;
  // By stream: how many of its operations. Those come before whatever the clock belongs to.
  using Clock = std::array<std::uint64_t, kStreams>;

  // By stream: up to which of its operations the next one of `stream` has to wait; 0: for none.
  Clock Needed(int stream, std::span<const Touch> touches) const;
  // `stream` waits for what has this clock.
  void Join(int stream, const Clock& clock);
  // The host has waited for the stream: so has all that it submits from now on.
  void HostWaited(int stream);
  // Adds the next operation of `stream`, after what it waits for.
  void Add(int stream, std::span<const Touch> touches);
  // Of what follows on the stream.
  const Clock& Of(int stream) const { return clocks_[static_cast<std::size_t>(stream)]; }
  // Everything is over.
  void Clear() { pieces_.clear(); }

 private:
  struct Piece {
    std::uint64_t end = 0;
    int writer = 0;
    std::uint64_t write = 0;  // its number on the writer's stream; 0: none
    Clock reads{};            // since then
  };
  // Makes `at` a border between pieces.
  void Split(std::uint64_t at);

  std::array<Clock, kStreams> clocks_{};
  std::map<std::uint64_t, Piece> pieces_;  // by begin; they do not overlap
};

}  // namespace ebbtide::run
