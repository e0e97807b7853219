// A GPU: the pool is one allocation, copies run on two streams of their own, and streams wait for each other by events.
//
// Which waits there are follows from what is touched (access_order.h): the accesses that BeginOp names, and the copies.
// So compute waits for a copy only when it comes to memory that the copy uses, and the host waits for nothing but
// Drain, Read and Write. Ops run on a stream that others give (SetCompute), of the device's primary context.
// Devices beside each other share the pool and what is known of its memory (cuda_streams.h): each waits for what the
// others did to it, and may be driven while they are.
#pragma once

#include "run/device/device.h"

namespace ebbtide::run {

struct CudaDeviceOptions {
  Bytes capacity = 0;
  int ordinal = 0;          // which GPU
  Bytes pinned_limit = -1;  // of the host's memory, how much may be pinned; -1: all that the system lets us
};

// A device with what tests and reports want to know beside.
class CudaDevice : public Device {
 public:
  // Leaves out the n-th wait of one stream for another from now on; 0: none. For tests of the race checker.
  virtual void SkipWait(std::int64_t n) = 0;
  // How often the driver was asked to let one stream wait for another.
  virtual std::int64_t waits() const = 0;
  // Bytes of the host's memory that are pinned now.
  virtual Bytes pinned() const = 0;
};

Result<std::shared_ptr<CudaDevice>> MakeCudaDevice(const CudaDeviceOptions& options);

}  // namespace ebbtide::run
