// Pieces of content, all forgotten with the next kernel.
#include "phantom/core/recent.h"

namespace ebbtide::phantom {

void RecentContent::ForgetAfter(std::int64_t launches) {
  if (launches == launches_) return;
  launches_ = launches;
  pieces_.clear();
}

void RecentContent::ForgetLocked(std::uint64_t begin, Bytes bytes) {
  auto piece = pieces_.upper_bound(begin);
  if (piece != pieces_.begin()) --piece;
  while (piece != pieces_.end() && piece->first < begin + static_cast<std::uint64_t>(bytes)) {
    bool overlaps = piece->first + piece->second->size() > begin;
    piece = overlaps ? pieces_.erase(piece) : std::next(piece);
  }
}

void RecentContent::Remember(std::uint64_t begin, Piece content, std::int64_t launches) {
  std::lock_guard lock(mutex_);
  ForgetAfter(launches);
  if (pieces_.size() >= kMostPieces) pieces_.clear();
  ForgetLocked(begin, static_cast<Bytes>(content->size()));
  pieces_.emplace(begin, std::move(content));
}

void RecentContent::Forget(std::uint64_t begin, Bytes bytes) {
  std::lock_guard lock(mutex_);
  ForgetLocked(begin, bytes);
}

RecentContent::Piece RecentContent::Find(std::uint64_t begin, Bytes bytes, std::int64_t launches) {
  std::lock_guard lock(mutex_);
  ForgetAfter(launches);
  auto piece = pieces_.upper_bound(begin);
  if (piece == pieces_.begin()) return nullptr;
  --piece;
  std::uint64_t offset = begin - piece->first;
  if (offset + static_cast<std::uint64_t>(bytes) > piece->second->size()) return nullptr;
  if (offset == 0 && static_cast<std::size_t>(bytes) == piece->second->size()) return piece->second;
  auto first = piece->second->begin() + static_cast<std::ptrdiff_t>(offset);
  return std::make_shared<const std::vector<std::byte>>(first, first + bytes);
}

}  // namespace ebbtide::phantom
