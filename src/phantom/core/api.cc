// The short forms of what libraries need of the device.
#include "phantom/core/api.h"

#include <cstring>

#include "phantom/core/copy.h"
#include "phantom/core/declare.h"
#include "phantom/core/device.h"
#include "phantom/core/op_clock.h"
#include "phantom/core/values.h"

namespace ebbtide::phantom {

Code Launch(const char* name, void* stream, Nanos duration) {
  Device& device = TheDevice();
  std::shared_ptr<Stream> found = device.streams.Find(stream);
  if (!found) return Code::kInvalidHandle;
  if (Code code = device.contexts.Use(); code != Code::kSuccess) return code;
  device.statistics.launches.fetch_add(1, std::memory_order_relaxed);
  if (!InDeclaredOperation()) device.statistics.undeclared_launches.fetch_add(1, std::memory_order_relaxed);
  NoteLaunch(device);
  found->Submit({.name = name, .duration = duration < 0 ? TimeOfLaunch(*found, nullptr) : duration});
  return Code::kSuccess;
}

Code WaitForStream(void* stream) {
  std::shared_ptr<Stream> found = TheDevice().streams.Find(stream);
  if (!found) return Code::kInvalidHandle;
  found->Synchronize();
  return Code::kSuccess;
}

bool IsStream(void* stream) { return TheDevice().streams.Find(stream) != nullptr; }

Code AllocateDevice(Bytes bytes, void** out) {
  Device& device = TheDevice();
  if (Code code = device.contexts.Use(); code != Code::kSuccess) return code;
  Address address = 0;
  Heap& heap = device.gpu().heap;
  Code code = heap.Allocate(bytes, address);
  if (code == Code::kOutOfMemory) {  // the driver then takes back what its pools do not use
    device.pools.ReleaseUnused();
    code = heap.Allocate(bytes, address);
  }
  if (code == Code::kOutOfMemory) device.statistics.out_of_memory.Add(bytes);
  if (code != Code::kSuccess) return code;
  device.statistics.allocations.Add(bytes);
  *out = reinterpret_cast<void*>(address);
  return Code::kSuccess;
}

// Freeing waits for the device, so whatever was submitted is over.
Code FreeDevice(void* pointer) {
  Device& device = TheDevice();
  auto address = reinterpret_cast<Address>(pointer);
  std::optional<Range> range = device.space.Find(address);
  if (!range || range->begin != address) return Code::kInvalidValue;
  SynchronizeDevice();
  if (range->kind == RangeKind::kPool) return range->owner->Free(*range, nullptr, "cudaFree");
  Bytes freed = 0;
  Code code = device.gpu(range->gpu()).heap.Free(address, freed);
  if (code != Code::kSuccess) return code;
  device.statistics.frees.Add(freed);
  return Code::kSuccess;
}

Code GiveZeros(void* stream, void* host, Bytes bytes) {
  if (Code code = WaitForStream(stream); code != Code::kSuccess) return code;
  std::memset(host, 0, static_cast<std::size_t>(bytes));
  CountHostRead(TheDevice().statistics, bytes, false);
  return LostDevice();
}

const DeviceProfile& Profile() { return TheDevice().profile; }

bool IsGpu(int index) { return TheDevice().HasGpu(index); }

int NumberOf(int index) { return TheDevice().config.visible[static_cast<std::size_t>(index)]; }

}  // namespace ebbtide::phantom
