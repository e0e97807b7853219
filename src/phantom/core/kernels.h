// Kernels and device variables by name. Their code is never read: a kernel is its name and what was set on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "device/profile.h"
#include "phantom/core/address_space.h"
#include "phantom/core/code.h"

namespace ebbtide::phantom {

class Device;
class Stream;
struct Module;

// Lives as long as the process: programs keep pointers to kernels of modules that are gone.
struct Kernel {
  std::string name;
  const Module* module = nullptr;  // null: linked into the program
  std::atomic<int> dynamic_shared_limit{48 * 1024};
  std::atomic<int> shared_carveout{-1};
};

// A __device__ or __constant__ variable that is linked into the program. Its memory is part of the context.
struct Variable {
  std::string name;
  Bytes size = 0;
  Address address = 0;  // 0: not used yet
};

struct LaunchShape {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  std::size_t shared_memory = 0;
};

class Kernels {
 public:
  // Kernels are known by the address of the host function that stands for them. Find: null where none does.
  void Register(const void* host, const char* name);
  Kernel* Find(const void* host) const;
  void RegisterVariable(const void* host, const char* name, Bytes size);
  // The variable, with memory on the device from now on; null where there is no such variable, or no addresses are
  // left.
  const Variable* FindVariable(const void* host, Device& device);

  // The kernel that a handle of Find or Make is; null where it is neither.
  Kernel* Check(const void* kernel) const;
  Kernel* Make(const std::string& name, const Module* module);

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, Kernel*> by_host_;
  std::unordered_map<const void*, std::unique_ptr<Kernel>> all_;
  std::unordered_map<const void*, Variable> variables_;
};

// The kernels of the process. Libraries register theirs when they are loaded, which does not make the device yet.
Kernels& TheKernels();

// By number, as CUfunction_attribute and cudaFuncAttribute have them; nullopt: no such attribute.
std::optional<int> KernelAttribute(const DeviceProfile& profile, const Kernel& kernel, int attribute);
Code SetKernelAttribute(const DeviceProfile& profile, Kernel& kernel, int attribute, int value);

// kInvalidValue: shared memory beyond what the kernel may have; kInvalidConfiguration: dimensions beyond the device's.
Code LaunchKernel(Device& device, Kernel& kernel, const LaunchShape& shape, Stream& stream);

}  // namespace ebbtide::phantom
