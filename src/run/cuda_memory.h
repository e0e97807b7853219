// Memory of the driver's that gives itself back: the context, the pool, pages of the host of which a part is pinned.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "base/units.h"
#include "run/cuda_driver.h"
#include "run/device.h"

namespace ebbtide::run {

// The GPU's primary context, which torch uses too.
class CudaPrimary {
 public:
  static Result<std::shared_ptr<CudaPrimary>> Make(int ordinal);
  ~CudaPrimary();
  CudaPrimary(const CudaPrimary&) = delete;
  CudaPrimary& operator=(const CudaPrimary&) = delete;

  const CudaDriver& driver() const { return *driver_; }

  // Inside, the context is this thread's.
  class Current {
   public:
    explicit Current(const CudaPrimary& primary) : driver_(*primary.driver_) {
      pushed_ = driver_.CtxPushCurrent(primary.context_) == 0;
    }
    ~Current() {
      CudaContext before = nullptr;
      if (pushed_) driver_.CtxPopCurrent(&before);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const CudaDriver& driver_;
    bool pushed_ = false;
  };

 private:
  CudaPrimary(const CudaDriver* driver, int device, CudaContext context)
      : driver_(driver), device_(device), context_(context) {}

  const CudaDriver* const driver_;
  const int device_;
  const CudaContext context_;
};

// Of a device: how much of the host's memory may be pinned, how much is, and where.
class PinnedRanges {
 public:
  explicit PinnedRanges(Bytes limit) : limit_(limit) {}  // -1: none

  Bytes pinned() const;
  // Pins from `data` on as much of `bytes` as can be had; how much that is.
  Bytes Pin(const CudaPrimary& primary, std::byte* data, Bytes bytes);
  void Unpin(const CudaPrimary& primary, std::byte* data);
  // How many of the `bytes` from `host` on are as the first of them is: pinned or not. A copy may not mix them.
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
