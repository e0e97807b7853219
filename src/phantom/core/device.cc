// Makes the device from the profile and the environment.
#include "phantom/core/device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include "base/json_text.h"
#include "phantom/core/declare.h"
#include "phantom/core/end.h"

namespace ebbtide::phantom {
namespace {

std::atomic<bool> device_exists{false};

// The words of the command line with blanks between them.
std::string CommandLine() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return IsUtf8(text) ? text : std::string();
}

}  // namespace

Device::Device(const Config& config_, DeviceProfile profile_)
    : config(config_),
      profile(std::move(profile_)),
      command(CommandLine()),
      pid(getpid()),
      to_device(profile.host_to_device_bandwidth, profile.copy_latency),
      to_host(profile.device_to_host_bandwidth, profile.copy_latency),
      ledger(profile.memory, config.shared),
      backing(config.backed),
      heap(ledger, backing, space),
      vmm(ledger, backing, space),
      host_memory(space),
      races(config.check_races ? std::make_unique<RaceChecker>() : nullptr),
      streams(*this),
      pools(*this),
      contexts(ledger, profile.context) {
  space.SetObserver([this](const Range& range, bool comes) {
    if (range.on_device() && !comes) known.Forget(range.begin, range.size);
    if (!races) return;
    if (range.kind == RangeKind::kPool) return;  // in the order of streams
    if (comes)
      races->Allocated(range.begin, range.size);
    else if (range.kind == RangeKind::kDevice || range.kind == RangeKind::kMapped)
      races->Freed(range.begin, range.size, range.kind == RangeKind::kDevice ? "cudaFree" : "cuMemUnmap",
                   CurrentFrame());
  });
}

Device& TheDevice() {
  static Device* device = [] {
    const Config& config = TheConfig();
    auto profile = FindProfile(config.profile);
    if (!profile) {
      std::fprintf(stderr, "phantom: EBBTIDE_PHANTOM_PROFILE: %s\n", profile.error().message.c_str());
      std::_Exit(2);
    }
    auto* made = new Device(config, std::move(*profile));
    device_exists.store(true, std::memory_order_release);
    WatchForTheEnd();
    return made;
  }();
  return *device;
}

bool DeviceExists() { return device_exists.load(std::memory_order_acquire); }

void SynchronizeDevice() {
  TheDevice().streams.SynchronizeAll();
  TheDevice().pools.Synchronized();
}

void ResetDevice() {
  SynchronizeDevice();
  Device& device = TheDevice();
  for (const Range& range : device.space.Touched(0, std::numeric_limits<Bytes>::max())) {
    Bytes freed = 0;
    if (range.kind == RangeKind::kPool) range.owner->Free(range, nullptr, "cudaDeviceReset");
    if (range.kind == RangeKind::kDevice) device.heap.Free(range.begin, freed);
  }
  device.pools.ReleaseUnused();
  device.contexts.ResetPrimary();
}

}  // namespace ebbtide::phantom
