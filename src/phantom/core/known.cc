// Pieces of content by address. A piece that is overwritten in part is cut; what is left shares its bytes.
#include "phantom/core/known.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace ebbtide::phantom {

void KnownContent::Expect(std::uint64_t begin, Bytes bytes, const std::shared_ptr<Pending>& pending) {
  if (bytes <= 0) return;
  std::lock_guard lock(expected_mutex_);
  expected_.push_back({begin, begin + static_cast<std::uint64_t>(bytes), pending, pending.get()});
  expected_count_.store(expected_.size(), std::memory_order_release);
}

void KnownContent::Arrived(const Pending* pending) {
  std::lock_guard lock(expected_mutex_);
  std::erase_if(expected_, [&](const Expected& e) { return e.identity == pending; });
  expected_count_.store(expected_.size(), std::memory_order_release);
}

void KnownContent::Await(std::uint64_t begin, Bytes bytes) const {
  if (expected_count_.load(std::memory_order_acquire) == 0 || bytes <= 0) return;
  const std::uint64_t end = begin + static_cast<std::uint64_t>(bytes);
  std::vector<std::shared_ptr<Pending>> found;
  {
    std::lock_guard lock(expected_mutex_);
    for (const Expected& e : expected_)
      if (e.begin < end && begin < e.end)
        if (auto pending = e.pending.lock()) found.push_back(std::move(pending));
  }
  for (const auto& pending : found) pending->Wait();
}

KnownContent::Pieces::const_iterator KnownContent::FirstAt(std::uint64_t begin) const {
  auto piece = pieces_.upper_bound(begin);
  if (piece == pieces_.begin()) return piece;
  auto before = std::prev(piece);
  return before->first + static_cast<std::uint64_t>(before->second.bytes) > begin ? before : piece;
}

void KnownContent::Drop(Pieces::iterator piece) {
  held_ -= piece->second.bytes;
  pieces_.erase(piece);
}

void KnownContent::ForgetLocked(std::uint64_t begin, Bytes bytes) {
  if (bytes <= 0) return;
  const std::uint64_t end = begin + static_cast<std::uint64_t>(bytes);
  auto at = FirstAt(begin);
  while (at != pieces_.end() && at->first < end) {
    const std::uint64_t from = at->first;
    const Piece piece = at->second;
    const std::uint64_t to = from + static_cast<std::uint64_t>(piece.bytes);
    auto next = std::next(at);
    Drop(pieces_.find(from));
    if (from < begin) {
      const auto left = static_cast<Bytes>(begin - from);
      pieces_.emplace(from, Piece{piece.data, piece.offset, left, piece.origin});
      held_ += left;
    }
    if (to > end) {
      const auto right = static_cast<Bytes>(to - end);
      pieces_.emplace(end, Piece{piece.data, piece.offset + piece.bytes - right, right, piece.origin});
      held_ += right;
    }
    at = next;
  }
}

void KnownContent::Write(std::uint64_t begin, const std::byte* data, Bytes bytes, std::uint32_t origin) {
  if (bytes <= 0) return;
  Await(begin, bytes);
  std::lock_guard lock(mutex_);
  ForgetLocked(begin, bytes);
  if (held_ + bytes > most_) return;
  pieces_.emplace(begin, Piece{std::make_shared<const std::vector<std::byte>>(data, data + bytes), 0, bytes, origin});
  held_ += bytes;
}

void KnownContent::Copy(std::uint64_t to, std::uint64_t from, Bytes bytes) {
  Await(from, bytes);
  Await(to, bytes);
  std::lock_guard lock(mutex_);
  std::vector<std::pair<std::uint64_t, Piece>> moved;
  const std::uint64_t end = from + static_cast<std::uint64_t>(bytes);
  for (auto at = FirstAt(from); at != pieces_.end() && at->first < end; ++at) {
    const std::uint64_t first = std::max(at->first, from);
    const std::uint64_t last = std::min(at->first + static_cast<std::uint64_t>(at->second.bytes), end);
    moved.emplace_back(to + (first - from),
                       Piece{at->second.data, at->second.offset + static_cast<Bytes>(first - at->first),
                             static_cast<Bytes>(last - first), at->second.origin});
  }
  ForgetLocked(to, bytes);
  for (auto& [address, piece] : moved) {
    if (held_ + piece.bytes > most_) return;
    held_ += piece.bytes;
    pieces_.emplace(address, std::move(piece));
  }
}

void KnownContent::Forget(std::uint64_t begin, Bytes bytes) {
  Await(begin, bytes);
  std::lock_guard lock(mutex_);
  ForgetLocked(begin, bytes);
}

void KnownContent::ForgetAll() {
  std::lock_guard lock(mutex_);
  pieces_.clear();
  held_ = 0;
}

bool KnownContent::Walk(std::uint64_t begin, Bytes bytes, std::byte* out, std::uint32_t* origin) const {
  if (origin != nullptr) *origin = 0;
  const std::uint64_t end = begin + static_cast<std::uint64_t>(bytes);
  auto at = FirstAt(begin);
  for (std::uint64_t position = begin; position < end; ++at) {
    if (at == pieces_.end() || at->first > position) return false;
    const Piece& piece = at->second;
    const std::uint64_t last = std::min(at->first + static_cast<std::uint64_t>(piece.bytes), end);
    if (out != nullptr) {
      std::memcpy(out + (position - begin),
                  piece.data->data() + piece.offset + static_cast<Bytes>(position - at->first), last - position);
    }
    if (origin != nullptr && *origin == 0) *origin = piece.origin;
    position = last;
  }
  return true;
}

bool KnownContent::Knows(std::uint64_t begin, Bytes bytes, std::uint32_t* origin) const {
  Await(begin, bytes);
  std::lock_guard lock(mutex_);
  return Walk(begin, bytes, nullptr, origin);
}

bool KnownContent::Read(std::uint64_t begin, Bytes bytes, std::byte* out, std::uint32_t* origin) const {
  Await(begin, bytes);
  std::lock_guard lock(mutex_);
  return Walk(begin, bytes, out, origin);
}

Bytes KnownContent::bytes() const {
  std::lock_guard lock(mutex_);
  return held_;
}

}  // namespace ebbtide::phantom
