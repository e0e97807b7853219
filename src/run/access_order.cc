#include "run/access_order.h"

#include <algorithm>
#include <iterator>

namespace ebbtide::run {

AccessOrder::Clock AccessOrder::Needed(int stream, std::span<const Touch> touches) const {
  Clock out{};
  const Clock& known = Of(stream);
  const auto need = [&](int other, std::uint64_t number) {
    const auto o = static_cast<std::size_t>(other);
    if (other != stream && number > known[o]) out[o] = std::max(out[o], number);
  };
  for (const Touch& touch : touches) {
    auto piece = pieces_.upper_bound(touch.begin);
    if (piece != pieces_.begin() && std::prev(piece)->second.end > touch.begin) --piece;
    for (; piece != pieces_.end() && piece->first < touch.end; ++piece) {
      need(piece->second.writer, piece->second.write);
      for (int s = 0; touch.writes && s < kStreams; ++s) need(s, piece->second.reads[static_cast<std::size_t>(s)]);
    }
  }
  return out;
}

void AccessOrder::Join(int stream, const Clock& clock) {
  Clock& own = clocks_[static_cast<std::size_t>(stream)];
  for (std::size_t s = 0; s < own.size(); ++s) own[s] = std::max(own[s], clock[s]);
}

void AccessOrder::HostWaited(int stream) {
  const Clock clock = Of(stream);
  for (int s = 0; s < kStreams; ++s) Join(s, clock);
}

void AccessOrder::Split(std::uint64_t at) {
  auto piece = pieces_.upper_bound(at);
  if (piece == pieces_.begin()) return;
  --piece;
  if (piece->first == at || piece->second.end <= at) return;
  Piece rest = piece->second;
  piece->second.end = at;
  pieces_.emplace_hint(std::next(piece), at, rest);
}

void AccessOrder::Add(int stream, std::span<const Touch> touches) {
  const auto s = static_cast<std::size_t>(stream);
  const std::uint64_t number = ++clocks_[s][s];
  for (const Touch& touch : touches) {
    if (touch.begin >= touch.end) continue;
    Split(touch.begin);
    Split(touch.end);
    auto piece = pieces_.lower_bound(touch.begin);
    if (touch.writes) {
      while (piece != pieces_.end() && piece->first < touch.end) piece = pieces_.erase(piece);
      pieces_.emplace_hint(piece, touch.begin, Piece{touch.end, stream, number, {}});
      continue;
    }
    for (std::uint64_t at = touch.begin; at < touch.end;) {
      if (piece == pieces_.end() || piece->first > at) {
        const std::uint64_t end = piece == pieces_.end() ? touch.end : std::min(piece->first, touch.end);
        piece = pieces_.emplace_hint(piece, at, Piece{end, stream, 0, {}});
      }
      piece->second.reads[s] = number;
      at = piece->second.end;
      ++piece;
    }
  }
}

}  // namespace ebbtide::run
