// Pages of the host of which a part is pinned, so that copies to and from a GPU run by themselves.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "base/units.h"
#include "device/cuda/primary.h"
#include "run/device/device.h"

namespace ebbtide::run {

// The pinned memory of a device: how much of the host's memory may be pinned, how much is, and where.
class PinnedRanges {
 public:
  explicit PinnedRanges(Bytes limit) : limit_(limit) {}  // -1: there is no limit

  Bytes pinned() const;
  // Pins as many of the `bytes` from `data` on as can be pinned, and returns how many that are.
  Bytes Pin(const CudaPrimary& primary, std::byte* data, Bytes bytes);
  void Unpin(const CudaPrimary& primary, std::byte* data);
  // How many of the `bytes` from `host` on are pinned if the first of them is, or are not if it is not. One copy may
  // not mix pinned bytes with others.
  Bytes Alike(const std::byte* host, Bytes bytes) const;

 private:
  const Bytes limit_;
  mutable std::mutex mutex_;
  Bytes pinned_ = 0;
  std::map<const std::byte*, Bytes> ranges_;
};

// Pages of the host, pinned from the first on as far as that can be had. The rest is copied through the driver's own
// buffers: slower, and the calling thread waits for it.
class PinnedPages final : public HostMemory {
 public:
  // Null: the host has no memory.
  static std::shared_ptr<PinnedPages> Make(std::shared_ptr<CudaPrimary> primary, std::shared_ptr<PinnedRanges> ranges,
                                           Bytes bytes);
  ~PinnedPages() override;
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;

  std::byte* data() override { return data_; }

 private:
  PinnedPages(std::shared_ptr<CudaPrimary> primary, std::shared_ptr<PinnedRanges> ranges, std::byte* data,
              std::size_t mapped)
      : primary_(std::move(primary)), ranges_(std::move(ranges)), data_(data), mapped_(mapped) {}

  const std::shared_ptr<CudaPrimary> primary_;
  const std::shared_ptr<PinnedRanges> ranges_;
  std::byte* const data_;
  const std::size_t mapped_;
};

}  // namespace ebbtide::run
