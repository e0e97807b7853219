// Keeps who touched which bytes last, and from that finds the waits that are missing.
#include "run/device/access_order.h"

#include <algorithm>
#include <iterator>

namespace ebbtide::run {

int AccessOrder::AddStream() {
  clocks_.push_back(over_);
  return static_cast<int>(clocks_.size()) - 1;
}

AccessOrder::Clock AccessOrder::Needed(int stream, std::span<const Touch> touches) const {
  Clock out;
  const Clock& known = Of(stream);
  const auto need = [&](int other, std::uint64_t number) {
    if (other != stream && number > known[other]) out.Raise(other, number);
  };
  for (const Touch& touch : touches) {
    auto piece = pieces_.upper_bound(touch.begin);
    if (piece != pieces_.begin() && std::prev(piece)->second.end > touch.begin) --piece;
    for (; piece != pieces_.end() && piece->first < touch.end; ++piece) {
      need(piece->second.writer, piece->second.write);
      for (int s = 0; touch.writes && s < piece->second.reads.size(); ++s) need(s, piece->second.reads[s]);
    }
  }
  return out;
}

void AccessOrder::HostWaited(int stream) {
  over_.Join(Of(stream));
  for (Clock& clock : clocks_) clock.Join(over_);
}

void AccessOrder::Split(std::uint64_t at) {
  auto piece = pieces_.upper_bound(at);
  if (piece == pieces_.begin()) return;
  --piece;
  if (piece->first == at || piece->second.end <= at) return;
  Piece rest = piece->second;
  piece->second.end = at;
  pieces_.emplace_hint(std::next(piece), at, std::move(rest));
}

void AccessOrder::Add(int stream, std::span<const Touch> touches) {
  const std::uint64_t number = Of(stream)[stream] + 1;
  clocks_[static_cast<std::size_t>(stream)].Set(stream, number);
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
      piece->second.reads.Set(stream, number);
      at = piece->second.end;
      ++piece;
    }
  }
}

void AccessOrder::Prune() {
  std::erase_if(pieces_, [&](const auto& entry) {
    const Piece& piece = entry.second;
    if (piece.write > over_[piece.writer]) return false;
    for (int s = 0; s < piece.reads.size(); ++s) {
      if (piece.reads[s] > over_[s]) return false;
    }
    return true;
  });
}

}  // namespace ebbtide::run
