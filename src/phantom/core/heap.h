// cuMemAlloc and cudaMalloc. What the driver does with sizes is not documented; assumed here, from what cudaMemGetInfo
// shows on real devices: requests up to 1 MiB are cut from blocks of 2 MiB in steps of 512 bytes, larger ones are
// rounded up to 2 MiB; a block goes back when its last piece does.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "base/units.h"
#include "phantom/core/address_space.h"
#include "phantom/core/code.h"
#include "phantom/core/physical.h"

namespace ebbtide::phantom {

inline constexpr Bytes kBlockBytes = 2 * kMiB;
inline constexpr Bytes kLargestSmallRequest = kMiB;
inline constexpr Bytes kSmallStep = 512;

class Heap {
 public:
  Heap(Ledger& ledger, BackingBudget& budget, AddressSpace& space) : ledger_(ledger), budget_(budget), space_(space) {}

  // Addresses are aligned to 512 bytes, and to 2 MiB where more than 1 MiB is asked for.
  Code Allocate(Bytes bytes, Address& out);
  // kInvalidValue where no allocation begins there. The caller has seen to it that no work uses it any more.
  Code Free(Address address, Bytes& freed);

 private:
  struct Block {
    std::shared_ptr<Physical> physical;
    std::map<Bytes, Bytes> gaps;  // offset -> size
  };

  Code AllocateSmall(Bytes bytes, Address& out);
  Code AllocateLarge(Bytes bytes, Address& out);
  Code NewBlock(Bytes bytes, Address& begin, std::shared_ptr<Physical>& physical);

  Ledger& ledger_;
  BackingBudget& budget_;
  AddressSpace& space_;
  std::mutex mutex_;
  std::map<Address, Block> blocks_;  // of small pieces, by address
};

}  // namespace ebbtide::phantom
