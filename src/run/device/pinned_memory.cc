// Pins pages of the host while there is room under the limit, and leaves the rest as they are.
#include "run/device/pinned_memory.h"

#include <sys/mman.h>

#include <algorithm>

namespace ebbtide::run {
namespace {

constexpr Bytes kPage = 4096;
constexpr Bytes kLeast = 64 * kPage;  // less is not worth pinning, once more was refused

}  // namespace

Bytes PinnedRanges::pinned() const {
  const std::lock_guard lock(mutex_);
  return pinned_;
}

Bytes PinnedRanges::Pin(const CudaPrimary& primary, std::byte* data, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  if (limit_ >= 0) bytes = std::min(bytes, std::max<Bytes>(limit_ - pinned_, 0) / kPage * kPage);
  const CudaPrimary::Current current(primary);
  for (; bytes > 0; bytes = bytes / 2 >= kLeast ? RoundUp(bytes / 2, kPage) : 0) {
    if (primary.driver().MemHostRegister(data, static_cast<std::size_t>(bytes), 0) == 0) break;
  }
  if (bytes > 0) ranges_[data] = bytes;
  pinned_ += bytes;
  return bytes;
}

void PinnedRanges::Unpin(const CudaPrimary& primary, std::byte* data) {
  const std::lock_guard lock(mutex_);
  const auto range = ranges_.find(data);
  if (range == ranges_.end()) return;
  const CudaPrimary::Current current(primary);
  primary.driver().MemHostUnregister(data);
  pinned_ -= range->second;
  ranges_.erase(range);
}

Bytes PinnedRanges::Alike(const std::byte* host, Bytes bytes) const {
  const std::lock_guard lock(mutex_);
  auto range = ranges_.upper_bound(host);
  const Bytes until_next = range == ranges_.end() ? bytes : range->first - host;
  if (range != ranges_.begin()) {
    --range;
    const Bytes inside = range->first + range->second - host;
    if (inside > 0) return std::min(bytes, inside);
  }
  return std::min(bytes, until_next);
}

std::shared_ptr<PinnedPages> PinnedPages::Make(std::shared_ptr<CudaPrimary> primary,
                                               std::shared_ptr<PinnedRanges> ranges, Bytes bytes) {
  const std::size_t size = static_cast<std::size_t>(RoundUp(std::max<Bytes>(bytes, 1), kPage));
  void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  std::shared_ptr<PinnedPages> out(
      new PinnedPages(std::move(primary), std::move(ranges), static_cast<std::byte*>(data), size));
  if (bytes > 0) out->ranges_->Pin(*out->primary_, out->data_, static_cast<Bytes>(size));
  return out;
}

PinnedPages::~PinnedPages() {
  ranges_->Unpin(*primary_, data_);
  munmap(data_, mapped_);
}

}  // namespace ebbtide::run
