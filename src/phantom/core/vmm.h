// Virtual memory management: reserved addresses, pieces of memory, and mappings of the one to the other. Memory goes
// back to the device when its handle was released and its last mapping is gone.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "base/units.h"
#include "phantom/core/address_space.h"
#include "phantom/core/code.h"
#include "phantom/core/physical.h"

namespace ebbtide::phantom {

// Thread-safe. Every function answers as the driver call of its name does.
class Vmm {
 public:
  static constexpr Bytes kGranularity = 2 * kMiB;
  using Handle = std::uint64_t;

  Vmm(BackingBudget& budget, AddressSpace& space) : budget_(budget), space_(space) {}

  Code Reserve(Bytes bytes, Bytes alignment, Address hint, Address& out);
  Code Unreserve(Address begin, Bytes bytes);  // exactly what Reserve gave, with nothing mapped in it

  // Of the GPU whose ledger it is.
  Code Create(Ledger& ledger, Bytes bytes, Physical::Share share, Handle& out);
  Code Release(Handle handle);
  Code Export(Handle handle, int& fd);
  Code Import(int fd, Handle& out);
  // Another reference to the memory that is mapped at `address`.
  Code Retain(Address address, Handle& out);
  Code Describe(Handle handle, Physical::Share& share, int& gpu);

  // The begin of a piece of memory, at reserved addresses that have none yet. Not accessible until SetAccess.
  Code Map(Address begin, Bytes bytes, Bytes offset, Handle handle);
  // Takes whole mappings only.
  Code Unmap(Address begin, Bytes bytes);
  // `access`: CU_MEM_ACCESS_FLAGS_PROT_*; 3 is read and write.
  Code SetAccess(Address begin, Bytes bytes, unsigned access);
  Code GetAccess(Address address, unsigned& access);

 private:
  struct Held {
    std::shared_ptr<Physical> physical;
    int references = 0;
  };

  bool IsReserved(Address begin, Bytes bytes) const;

  BackingBudget& budget_;
  AddressSpace& space_;
  std::mutex mutex_;
  std::map<Address, Bytes> reserved_;
  std::map<Handle, Held> handles_;
  Handle next_ = 0x1000;
};

}  // namespace ebbtide::phantom
