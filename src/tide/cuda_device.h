// A GPU under the tide allocator: pages by the driver's virtual memory calls, points in streams by events. Only what
// two streams need costs events: while a program has one stream, none is recorded at a free.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "device/cuda/primary.h"
#include "tide/device.h"

namespace ebbtide::tide {

// The driver's functions for pages, as in CudaDriver.
struct CudaPages {
  struct Location {
    int type = 1;  // a device
    int id = 0;
  };
  struct Properties {
    int type = 1;  // pinned: it stays where it is
    int handle_types = 0;
    Location location;
    void* windows_only = nullptr;
    unsigned char compression = 0, remote = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  };
  struct Access {
    Location location;
    int flags = 3;  // reading and writing
  };
  using Handle = unsigned long long;

  int (*MemGetInfo)(std::size_t* free, std::size_t* total);
  int (*MemAddressReserve)(CudaAddress* address, std::size_t bytes, std::size_t alignment, CudaAddress hint,
                           unsigned long long flags);
  int (*MemCreate)(Handle* handle, std::size_t bytes, const Properties* properties, unsigned long long flags);
  int (*MemMap)(CudaAddress address, std::size_t bytes, std::size_t offset, Handle handle, unsigned long long flags);
  int (*MemSetAccess)(CudaAddress address, std::size_t bytes, const Access* access, std::size_t count);
  int (*MemUnmap)(CudaAddress address, std::size_t bytes);
  int (*MemRelease)(Handle handle);
  int (*EventQuery)(CudaEvent event);
  int (*CtxSynchronize)();
  void (*phantom_released)(const void* address, std::size_t bytes);  // null on a real GPU
};
// Loaded once and kept. An error where the driver lacks one of them.
Result<const CudaPages*> LoadCudaPages();

// Not thread-safe: the allocator calls it under its lock.
class CudaTideDevice final : public TideDevice {
 public:
  static Result<std::unique_ptr<CudaTideDevice>> Make(int ordinal);

  // The number of a stream, given when it is first asked for. A handle is taken to be the same stream for good.
  StreamId IdOf(CudaStream stream);
  const CudaPrimary& primary() const { return *primary_; }
  Bytes free_memory() const;

  Bytes total() const override { return total_; }
  std::optional<Address> Reserve(Bytes bytes) override;
  bool Map(Address begin, Bytes bytes) override;
  void Unmap(Address begin, Bytes bytes) override;
  Event Record(StreamId stream) override;
  std::int64_t Finished(StreamId stream) override;
  void StreamWaits(StreamId stream, const Event& event) override;
  void HostWaits(const Event& event) override;
  void Handed(Address begin, Bytes bytes, StreamId stream) override;

 private:
  // An event that was recorded when the stream stood there.
  struct Mark {
    std::int64_t position;
    CudaEvent event;
  };
  struct Stream {
    CudaStream handle = nullptr;
    std::int64_t last = 0;      // position that was given out
    std::int64_t finished = 0;  // as far as is known
    std::deque<Mark> marks;     // not known to be reached, in order
  };

  CudaTideDevice(std::shared_ptr<CudaPrimary> primary, const CudaPages* pages, int ordinal, Bytes total)
      : primary_(std::move(primary)), driver_(primary_->driver()), pages_(*pages), ordinal_(ordinal), total_(total) {}

  Stream& At(StreamId stream) { return streams_[stream.index()]; }
  void MarkNow(Stream& stream);
  // The first mark at or behind the position; null: that is reached.
  const Mark* MarkFor(const Event& event);
  void Reach(Stream& stream, std::int64_t position);

  const std::shared_ptr<CudaPrimary> primary_;
  const CudaDriver& driver_;
  const CudaPages& pages_;
  const int ordinal_;
  const Bytes total_;
  std::vector<Stream> streams_;
  std::unordered_map<CudaStream, std::size_t> ids_;
  CudaStream last_stream_ = nullptr;  // that was asked about, and its id
  StreamId last_id_;
  std::vector<CudaEvent> spare_;
};

}  // namespace ebbtide::tide
