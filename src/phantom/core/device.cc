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

// The table that processes share, of each GPU by its number on the machine: CUDA_VISIBLE_DEVICES may have another
// order.
std::string SharedName(const Config& config, int index) {
  const int number = config.visible[static_cast<std::size_t>(index)];
  if (config.shared.empty() || number == 0) return config.shared;
  return config.shared + "." + std::to_string(number);
}

std::vector<std::unique_ptr<Gpu>> MakeGpus(const Config& config, const DeviceProfile& profile, BackingBudget& backing,
                                           AddressSpace& space) {
  std::vector<std::unique_ptr<Gpu>> gpus;
  for (int index = 0; index < static_cast<int>(config.visible.size()); ++index)
    gpus.push_back(std::make_unique<Gpu>(index, config, profile, backing, space));
  return gpus;
}

std::vector<Ledger*> LedgersOf(const std::vector<std::unique_ptr<Gpu>>& gpus) {
  std::vector<Ledger*> ledgers;
  for (const auto& gpu : gpus) ledgers.push_back(&gpu->ledger);
  return ledgers;
}

}  // namespace

Gpu::Gpu(int index_, const Config& config, const DeviceProfile& profile, BackingBudget& backing, AddressSpace& space)
    : index(index_),
      ledger(profile.memory, SharedName(config, index_), index_),
      to_device(profile.host_to_device_bandwidth, profile.copy_latency),
      to_host(profile.device_to_host_bandwidth, profile.copy_latency),
      links(profile.LinkBandwidth(), profile.link_latency),
      heap(ledger, backing, space) {}

Device::Device(const Config& config_, DeviceProfile profile_)
    : config(config_),
      profile(std::move(profile_)),
      command(CommandLine()),
      pid(getpid()),
      backing(config.backed),
      gpus(MakeGpus(config, profile, backing, space)),
      vmm(backing, space),
      host_memory(space),
      races(config.check_races ? std::make_unique<RaceChecker>() : nullptr),
      streams(*this),
      pools(*this),
      contexts(LedgersOf(gpus), profile.context) {
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
  TheDevice().streams.SynchronizeAll(CurrentGpu());
  TheDevice().pools.Synchronized();
}

void ResetDevice(int gpu) {
  TheDevice().streams.SynchronizeAll(gpu);
  TheDevice().pools.Synchronized();
  Device& device = TheDevice();
  for (const Range& range : device.space.Touched(0, std::numeric_limits<Bytes>::max())) {
    Bytes freed = 0;
    if (range.gpu() != gpu) continue;
    if (range.kind == RangeKind::kPool) range.owner->Free(range, nullptr, "cudaDeviceReset");
    if (range.kind == RangeKind::kDevice) device.gpu(gpu).heap.Free(range.begin, freed);
  }
  device.pools.ReleaseUnused();
  device.contexts.ResetPrimary(gpu);
}

}  // namespace ebbtide::phantom
