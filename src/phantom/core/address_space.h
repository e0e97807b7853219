// What an address means: device memory, or host memory that the driver knows. Device addresses are reserved and cannot
// be touched by host code, as on a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "base/units.h"
#include "phantom/core/physical.h"

namespace ebbtide::phantom {

class Pool;

using Address = std::uint64_t;

enum class RangeKind : std::uint8_t {
  kDevice,      // cuMemAlloc, cudaMalloc
  kPool,        // stream-ordered pools
  kVariable,    // __device__ and __constant__
  kMapped,      // cuMemMap
  kPinned,      // cudaHostAlloc
  kRegistered,  // cudaHostRegister
  kManaged,     // cudaMallocManaged
};

struct Range {
  Address begin = 0;
  Bytes size = 0;
  RangeKind kind = RangeKind::kDevice;
  unsigned flags = 0;                       // as given to the call that made it
  std::uint64_t id = 0;                     // never reused in a process (CU_POINTER_ATTRIBUTE_BUFFER_ID)
  std::shared_ptr<Physical> physical = {};  // device memory only
  Bytes offset = 0;                         // of `begin` in it
  Pool* owner = nullptr;                    // of a kPool

  Address end() const { return begin + static_cast<Address>(size); }
  int gpu() const { return physical ? physical->gpu() : 0; }  // of device memory
  bool on_device() const { return kind <= RangeKind::kMapped; }
};

// Thread-safe.
class AddressSpace {
 public:
  // Is told of every range that comes (true) or goes (false). To be set before the first range; must not call the
  // space.
  using Observer = std::function<void(const Range&, bool)>;
  void SetObserver(Observer observer) { observer_ = std::move(observer); }

  // False, and nothing has changed, where it would overlap another range.
  bool Insert(Range range);
  // Takes out the range that begins there, of that kind where one is given, and returns it; nullopt where there is
  // none.
  std::optional<Range> Erase(Address begin);
  std::optional<Range> Erase(Address begin, RangeKind kind);
  void SetFlags(Address begin, unsigned flags);  // of the range that begins there
  // The range that holds the address; nullopt where none does.
  std::optional<Range> Find(Address address) const;

  // Whether it is device memory. Does not wait for the lock, for signal handlers: false where that is held.
  bool TryIsOnDevice(Address address) const;

  // All ranges that [begin, begin + bytes) touches, in order.
  std::vector<Range> Touched(Address begin, Bytes bytes) const;
  // As Touched, but nothing at all unless they cover it without a hole.
  std::vector<Range> Cover(Address begin, Bytes bytes) const;

 private:
  std::map<Address, Range>::const_iterator FirstAfter(Address address) const;

  mutable std::shared_mutex mutex_;
  std::map<Address, Range> ranges_;  // by begin, disjoint
  std::uint64_t next_id_ = 1;
  Observer observer_;
};

// Addresses that nothing else uses and that fault when touched; 0 where there are none left. They are at `hint` where
// that is possible.
Address ReserveAddresses(Bytes bytes, Bytes alignment, Address hint = 0);
void ReleaseAddresses(Address begin, Bytes bytes);

}  // namespace ebbtide::phantom
