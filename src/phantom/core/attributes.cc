// The table of attributes: from the profile, or alike on all devices that the profiles describe.
#include "phantom/core/attributes.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "phantom/core/mix.h"

namespace ebbtide::phantom {
namespace {

constexpr int kLargestAttribute = 148;

Bytes ReservedSharedMemory(const DeviceProfile& profile) { return profile.compute_major >= 8 ? 1024 : 0; }

}  // namespace

std::optional<int> DeviceAttribute(const DeviceProfile& profile, int attribute) {
  auto number = [](std::int64_t value) {
    return static_cast<int>(std::clamp<std::int64_t>(value, 0, std::numeric_limits<int>::max()));
  };
  const int major = number(profile.compute_major);
  switch (attribute) {
    case 1: return kThreadsPerBlock;
    case 2:
    case 3: return 1024;                             // block, x and y
    case 4: return 64;                               // block, z
    case 5: return std::numeric_limits<int>::max();  // grid, x
    case 6:
    case 7: return 65535;  // grid, y and z
    case 8: return number(profile.shared_memory_per_block);
    case 9: return 65536;  // constant memory
    case 10: return kWarp;
    case 11: return std::numeric_limits<int>::max();  // pitch
    case 12: return 65536;                            // registers of a block
    case 13: return number(profile.clock_khz);
    case 14: return 512;  // texture alignment
    case 15: return 1;    // copies while it computes
    case 16: return number(profile.multiprocessors);
    case 19: return 1;  // maps host memory
    case 21:
    case 22: return 131072;  // textures
    case 23: return 65536;
    case 24:
    case 25:
    case 26: return 16384;
    case 27:
    case 28: return 32768;
    case 29: return 2048;
    case 30: return 512;                                                // surface alignment
    case 31: return 1;                                                  // concurrent kernels
    case 32: return profile.float64_flops * 8 > profile.float32_flops;  // error correction: data-centre chips
    case 33: return 1;                                                  // PCI bus
    case 36: return number(profile.memory_clock_khz);
    case 37: return number(profile.memory_bus_bits);
    case 38: return number(profile.l2_cache);
    case 39: return number(profile.threads_per_multiprocessor);
    case 40: return 2;  // copy engines
    case 41: return 1;  // unified addressing
    case 42:
    case 45:
    case 46:
    case 53:
    case 55:
    case 66:
    case 67:
    case 73:
    case 74:
    case 77: return 32768;
    case 43:
    case 54:
    case 62:
    case 65:
    case 68: return 2046;
    case 44: return 1;
    case 47:
    case 48: return 8192;
    case 49: return 32768;
    case 51: return 32;  // texture pitch alignment
    case 52: return 32768;
    case 56: return 131072;
    case 57: return 65536;
    case 58:
    case 59:
    case 60: return 16384;
    case 61:
    case 63:
    case 64: return 32768;
    case 69: return 268435456;
    case 70: return 131072;
    case 71: return 65000;
    case 72: return 2097120;
    case 75: return major;
    case 76: return number(profile.compute_minor);
    case 78:
    case 79:
    case 80: return 1;  // stream priorities, L1 caches
    case 81: return number(profile.shared_memory_per_multiprocessor);
    case 82: return number(profile.registers_per_multiprocessor);
    case 83: return 1;  // managed memory
    case 87:
      return profile.float64_flops > 0
                 ? number(static_cast<std::int64_t>(profile.float32_flops / profile.float64_flops + 0.5))
                 : 0;
    case 90: return 1;  // preemption
    case 91: return 1;  // host pointers of registered memory
    case 92:
    case 93:
    case 94: return 1;  // stream memory operations
    case 95: return 1;  // cooperative launch
    case 97: return number(profile.shared_memory_per_block_optin);
    case 98: return 0;
    case 99: return 1;   // host memory can be registered
    case 102: return 1;  // virtual memory management
    case 103: return 1;  // shareable by file descriptor
    case 106: return number(profile.blocks_per_multiprocessor);
    case 108: return major >= 8 ? number(profile.l2_cache * 3 / 4) : 0;  // persisting L2
    case 109: return major >= 8 ? 134213632 : 0;
    case 111: return number(ReservedSharedMemory(profile));
    case 115: return 1;           // memory pools
    case 119: return 0;           // pools are not shareable here
    case 120: return major >= 9;  // clusters
    case 122:
    case 123: return 1;
    case 125: return 0;  // events between processes
    case 126: return major >= 9 ? 4 : 1;
    case 127: return major >= 9;  // tensor maps
    case 131:
    case 134: return -1;  // NUMA nodes
    default: break;
  }
  if (attribute < 1 || attribute > kLargestAttribute) return std::nullopt;
  return 0;
}

std::string PciBusId(int number) {
  char text[16];
  std::snprintf(text, sizeof(text), "0000:%02x:00.0", static_cast<unsigned>(number + 1) & 0xff);
  return text;
}

void DeviceUuid(const DeviceProfile& profile, int number, char (&uuid)[16]) {
  std::uint64_t mixed = 0;
  for (char c : profile.name) mixed = MixBits(mixed, static_cast<unsigned char>(c));
  for (int i = 0; i < 15; ++i) uuid[i] = static_cast<char>(MixBits(mixed, static_cast<std::uint64_t>(i)) & 0xff);
  uuid[15] = static_cast<char>(number);
}

int BlocksPerMultiprocessor(const DeviceProfile& profile, int threads_per_block, Bytes dynamic_shared_memory) {
  if (threads_per_block < 1 || threads_per_block > kThreadsPerBlock) return 0;
  std::int64_t threads = (threads_per_block + kWarp - 1) / kWarp * kWarp;
  std::int64_t blocks = std::min(profile.blocks_per_multiprocessor, profile.threads_per_multiprocessor / threads);
  blocks = std::min(blocks, profile.registers_per_multiprocessor / (kRegistersPerThread * threads));
  Bytes shared = dynamic_shared_memory + ReservedSharedMemory(profile);
  if (shared > 0) blocks = std::min(blocks, profile.shared_memory_per_multiprocessor / shared);
  return static_cast<int>(std::max<std::int64_t>(blocks, 0));
}

}  // namespace ebbtide::phantom
