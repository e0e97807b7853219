// The phantom device of this process: everything there is one of. Made at the first call that needs it, never freed.
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

class Device {
 public:
  Device(const Config& config, DeviceProfile profile);

  const Config& config;
  const DeviceProfile profile;
  const std::string command;  // of this process
  const int pid;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  Statistics statistics;

  HostClock host;
  CopyEngine to_device, to_host;

  Ledger ledger;
  BackingBudget backing;
  AddressSpace space;
  Heap heap;
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

// Waits for all streams, as freeing memory does.
void SynchronizeDevice();

// Frees what was allocated and the primary context.
void ResetDevice();

}  // namespace ebbtide::phantom
