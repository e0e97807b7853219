// Device memory as the chip has it: bytes taken from the ledger, with or without content. Addresses that lead to it are
// in address_space.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "base/units.h"
#include "phantom/core/code.h"
#include "phantom/core/ledger.h"

namespace ebbtide::phantom {

// Memory that may really hold content (EBBTIDE_PHANTOM_BACKED), given out first come, first served.
class BackingBudget {
 public:
  explicit BackingBudget(Bytes limit) : left_(limit) {}
  // False, and nothing is taken, where not that much is left.
  bool Take(Bytes bytes);
  void Give(Bytes bytes) { left_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  std::atomic<Bytes> left_;
};

class Physical {
 public:
  enum class Share { kPrivate, kShareable };

  // Null where the device has not that much left.
  static std::shared_ptr<Physical> Create(Ledger& ledger, BackingBudget& budget, Bytes bytes, Share share);
  // The same without charging the device: the memory is part of something that was charged before, as a context.
  static std::shared_ptr<Physical> CreateUncharged(BackingBudget& budget, Bytes bytes, int gpu);
  // Memory of another process, from the file descriptor that it exported. It is that process which is charged. Null:
  // not such a descriptor. The descriptor stays the caller's.
  static std::shared_ptr<Physical> Import(int fd);
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  Bytes size() const { return size_; }
  int gpu() const { return gpu_; }  // the device that it is part of
  Share share() const { return fd_ < 0 ? Share::kPrivate : Share::kShareable; }
  // Where the content lies, readable and writable by the phantom; null where there is none.
  std::byte* content() const { return content_; }
  // A new descriptor of it for Import, here or in another process; -1 where it is private.
  int Export() const;

 private:
  Physical() = default;

  bool Map(BackingBudget& budget, Share share);

  Ledger* ledger_ = nullptr;  // null: not charged here
  BackingBudget* budget_ = nullptr;
  Bytes size_ = 0;
  int gpu_ = 0;
  std::byte* content_ = nullptr;
  std::byte* mapped_ = nullptr;  // what was mmapped: content and, where shareable, the page before it
  Bytes mapped_size_ = 0;
  int fd_ = -1;
};

}  // namespace ebbtide::phantom
