// Who wants to know which device memory a model takes and gives back, and where: Allocator::Observe. Nobody by default.
#pragma once

#include "alloc/device_memory.h"
#include "alloc/streams.h"
#include "base/units.h"

namespace ebbtide::alloc {

struct DeviceRange {
  Address address = 0;
  Bytes bytes = 0;
  StreamId stream;
  bool small = false;  // of PyTorch's pool of small blocks
  bool pages = false;  // mapped into an expandable segment; else a segment of its own
};

// Called within the allocator's calls, in the order in which the device is asked. Must not call the allocator.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnTake(const DeviceRange& range) = 0;
  virtual void OnGive(const DeviceRange& range) = 0;
};

}  // namespace ebbtide::alloc
