// Host memory that the driver knows: pinned (made here), registered (the program's own), managed.
#pragma once

#include <atomic>

#include "base/units.h"
#include "phantom/core/address_space.h"
#include "phantom/core/code.h"

namespace ebbtide::phantom {

class HostMemory {
 public:
  explicit HostMemory(AddressSpace& space) : space_(space) {}

  // Memory of `kind`, kPinned or kManaged: zeros that take no memory until they are written.
  Code Allocate(Bytes bytes, RangeKind kind, unsigned flags, void*& out);
  Code Free(void* pointer, RangeKind kind);
  Code Register(void* pointer, Bytes bytes, unsigned flags);
  Code Unregister(void* pointer);

  // Makes bytes zero; whole pages of memory that was made here are given back to the system for that.
  void FillZero(void* pointer, Bytes bytes) const;

  Bytes pinned() const { return pinned_.load(std::memory_order_relaxed); }
  Bytes pinned_peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  void Count(Bytes change);

  AddressSpace& space_;
  std::atomic<Bytes> pinned_{0};
  std::atomic<Bytes> peak_{0};
};

}  // namespace ebbtide::phantom
