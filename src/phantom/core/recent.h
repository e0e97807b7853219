// What was last copied to device memory without content, in small pieces. As long as no kernel has run since, it is
// known what lies there, and the host can have it back: sizes that a library sends around before it begins, for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/units.h"

namespace ebbtide::phantom {

// Thread-safe.
class RecentContent {
 public:
  static constexpr Bytes kLargest = 64 * 1024;  // of one piece

  using Piece = std::shared_ptr<const std::vector<std::byte>>;

  // `launches`: how many kernels were launched up to now, in all calls.
  void Remember(std::uint64_t begin, Piece content, std::int64_t launches);
  void Forget(std::uint64_t begin, Bytes bytes);
  // What lies there, as it was copied last; null where that is not known.
  Piece Find(std::uint64_t begin, Bytes bytes, std::int64_t launches);

 private:
  static constexpr std::size_t kMostPieces = 256;

  void ForgetAfter(std::int64_t launches);
  void ForgetLocked(std::uint64_t begin, Bytes bytes);

  std::mutex mutex_;
  std::int64_t launches_ = 0;
  std::map<std::uint64_t, Piece> pieces_;  // by address, disjoint
};

}  // namespace ebbtide::phantom
