// The phantom GPUs of this process, and everything that they have in common: there is one. Made at the first call that
// needs it, never freed.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "device/profile.h"
#include "phantom/core/address_space.h"
#include "phantom/core/clock.h"
#include "phantom/core/config.h"
#include "phantom/core/context.h"
#include "phantom/core/event.h"
#include "phantom/core/handles.h"
#include "phantom/core/heap.h"
#include "phantom/core/host_memory.h"
#include "phantom/core/known.h"
#include "phantom/core/ledger.h"
#include "phantom/core/physical.h"
#include "phantom/core/pool.h"
#include "phantom/core/race.h"
#include "phantom/core/statistics.h"
#include "phantom/core/stream.h"
#include "phantom/core/vmm.h"

namespace ebbtide::phantom {

// What each GPU of the process has for itself.
struct Gpu {
  Gpu(int index, const Config& config, const DeviceProfile& profile, BackingBudget& backing, AddressSpace& space);

  const int index;  // by which the process knows it
  Ledger ledger;
  CopyEngine to_device, to_host;
  CopyEngine links;  // to other GPUs
  Heap heap;
  std::atomic<Bytes> nccl{0}, nccl_peak{0};  // what NCCL holds of it for this process, and the most it held
};

class Device {
 public:
  Device(const Config& config, DeviceProfile profile);

  // The GPU of the calling thread, and those by number; all are alike.
  Gpu& gpu() { return *gpus[static_cast<std::size_t>(CurrentGpu())]; }
  Gpu& gpu(int index) { return *gpus[static_cast<std::size_t>(index)]; }
  int gpu_count() const { return static_cast<int>(gpus.size()); }
  bool HasGpu(int index) const { return index >= 0 && index < gpu_count(); }

  const Config& config;
  const DeviceProfile profile;
  const std::string command;  // of this process
  const int pid;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  Statistics statistics;

  HostClock host;

  BackingBudget backing;
  AddressSpace space;
  std::vector<std::unique_ptr<Gpu>> gpus;  // at least one
  Vmm vmm;
  HostMemory host_memory;
  KnownContent known;  // of memory without content

  std::unique_ptr<RaceChecker> races;  // null unless asked for
  Streams streams;
  Pools pools;
  Handles<Event> events;
  Contexts contexts;
};

// The device, made at the first call. A profile that cannot be read ends the process: one line, exit code 2.
Device& TheDevice();
// Whether TheDevice was called before.
bool DeviceExists();

// Waits for all streams of the thread's GPU, as freeing memory does.
void SynchronizeDevice();

// Frees what was allocated on the GPU and its primary context.
void ResetDevice(int gpu);

}  // namespace ebbtide::phantom
