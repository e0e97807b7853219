// What is known of device memory without content, in the order in which the program submits its work. Copies bring
// contents that are known; kernels are skipped, so that what they write is not. Whoever knows what a kernel would have
// written (the values of python/ebbtide/observer) says so here. What is known is true, or rests on an assumption, which
// `origin` names.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/units.h"
#include "phantom/core/pending.h"

namespace ebbtide::phantom {

// Thread-safe.
class KnownContent {
 public:
  // Of one copy to the device that nobody watches; a larger one leaves memory of which nothing is known.
  static constexpr Bytes kLargestCopy = 64 * 1024;

  // `most`: of all contents together. What would go beyond is not kept.
  explicit KnownContent(Bytes most = kGiB) : most_(most) {}

  // An operation that is not over yet will write these bytes. Whoever asks for them or changes them waits for it first.
  void Expect(std::uint64_t begin, Bytes bytes, const std::shared_ptr<Pending>& pending);
  // It writes them now: nobody waits for it any more.
  void Arrived(const Pending* pending);

  // These bytes lie there now. `origin`: 0 where they are true, else the number of what was assumed.
  void Write(std::uint64_t begin, const std::byte* data, Bytes bytes, std::uint32_t origin);
  // Copies what lies at `from`, as far as it is known; the rest is forgotten.
  void Copy(std::uint64_t to, std::uint64_t from, Bytes bytes);
  void Forget(std::uint64_t begin, Bytes bytes);
  void ForgetAll();

  // Whether all of these bytes are known. `origin`, if not null: the first assumption among them, or 0.
  bool Knows(std::uint64_t begin, Bytes bytes, std::uint32_t* origin = nullptr) const;
  // The same, and copies them to `out`, which is left in an undefined state where they are not known.
  bool Read(std::uint64_t begin, Bytes bytes, std::byte* out, std::uint32_t* origin = nullptr) const;
  Bytes bytes() const;

 private:
  struct Piece {
    std::shared_ptr<const std::vector<std::byte>> data;
    Bytes offset = 0;  // in data
    Bytes bytes = 0;
    std::uint32_t origin = 0;
  };
  using Pieces = std::map<std::uint64_t, Piece>;

  struct Expected {
    std::uint64_t begin = 0, end = 0;
    std::weak_ptr<Pending> pending;
    const Pending* identity = nullptr;
  };

  void Await(std::uint64_t begin, Bytes bytes) const;
  Pieces::const_iterator FirstAt(std::uint64_t begin) const;
  bool Walk(std::uint64_t begin, Bytes bytes, std::byte* out, std::uint32_t* origin) const;
  void ForgetLocked(std::uint64_t begin, Bytes bytes);
  void Drop(Pieces::iterator piece);

  const Bytes most_;
  mutable std::mutex expected_mutex_;
  std::vector<Expected> expected_;
  std::atomic<std::size_t> expected_count_{0};
  mutable std::mutex mutex_;
  Pieces pieces_;  // by address, disjoint
  Bytes held_ = 0;
};

}  // namespace ebbtide::phantom
