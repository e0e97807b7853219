// The tables of kernels and variables, and launches.
#include "phantom/core/kernels.h"

#include <algorithm>
#include <mutex>

#include "phantom/core/attributes.h"
#include "phantom/core/declare.h"
#include "phantom/core/device.h"
#include "phantom/core/op_clock.h"
#include "phantom/core/values.h"

namespace ebbtide::phantom {

Kernels& TheKernels() {
  static Kernels* kernels = new Kernels;
  return *kernels;
}

void Kernels::Register(const void* host, const char* name) {
  Kernel* kernel = Make(name, nullptr);
  std::unique_lock lock(mutex_);
  by_host_[host] = kernel;
}

Kernel* Kernels::Make(const std::string& name, const Module* module) {
  auto made = std::make_unique<Kernel>();
  made->name = name;
  made->module = module;
  Kernel* kernel = made.get();
  std::unique_lock lock(mutex_);
  all_.emplace(kernel, std::move(made));
  return kernel;
}

Kernel* Kernels::Find(const void* host) const {
  std::shared_lock lock(mutex_);
  auto found = by_host_.find(host);
  return found == by_host_.end() ? nullptr : found->second;
}

Kernel* Kernels::Check(const void* kernel) const {
  std::shared_lock lock(mutex_);
  auto found = all_.find(kernel);
  return found == all_.end() ? nullptr : found->second.get();
}

void Kernels::RegisterVariable(const void* host, const char* name, Bytes size) {
  std::unique_lock lock(mutex_);
  variables_[host] = {name, size, 0};
}

const Variable* Kernels::FindVariable(const void* host, Device& device) {
  std::unique_lock lock(mutex_);
  auto found = variables_.find(host);
  if (found == variables_.end()) return nullptr;
  Variable& variable = found->second;
  if (variable.address == 0) {
    std::shared_ptr<Physical> physical = Physical::CreateUncharged(device.backing, variable.size, CurrentGpu());
    Address address = physical ? ReserveAddresses(variable.size, 4096) : 0;
    if (address == 0) return nullptr;
    device.space.Insert(
        {.begin = address, .size = variable.size, .kind = RangeKind::kVariable, .physical = std::move(physical)});
    variable.address = address;
  }
  return &variable;
}

std::optional<int> KernelAttribute(const DeviceProfile& profile, const Kernel& kernel, int attribute) {
  switch (attribute) {
    case 0: return kThreadsPerBlock;
    case 1:
    case 2:
    case 3: return 0;  // static shared, constant and local memory
    case 4: return kRegistersPerThread;
    case 5:
    case 6: return static_cast<int>(profile.compute_major * 10 + profile.compute_minor);
    case 7: return 0;  // cache mode
    case 8: return kernel.dynamic_shared_limit;
    case 9: return kernel.shared_carveout;
    default: break;
  }
  if (attribute < 0 || attribute > 15) return std::nullopt;
  return 0;  // clusters
}

Code SetKernelAttribute(const DeviceProfile& profile, Kernel& kernel, int attribute, int value) {
  if (attribute == 8) {
    if (value < 0 || value > std::max(profile.shared_memory_per_block, profile.shared_memory_per_block_optin))
      return Code::kInvalidValue;
    kernel.dynamic_shared_limit = value;
    return Code::kSuccess;
  }
  if (attribute == 9) kernel.shared_carveout = value;
  return attribute >= 9 && attribute <= 15 ? Code::kSuccess : Code::kInvalidValue;
}

Code LaunchKernel(Device& device, Kernel& kernel, const LaunchShape& shape, Stream& stream) {
  constexpr unsigned kLargestBlock[3] = {1024, 1024, 64};
  constexpr unsigned kLargestGrid[3] = {0x7fffffff, 65535, 65535};
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.grid[i] > kLargestGrid[i]) return Code::kInvalidConfiguration;
    if (shape.block[i] == 0 || shape.block[i] > kLargestBlock[i]) return Code::kInvalidConfiguration;
  }
  if (shape.block[0] * shape.block[1] * shape.block[2] > kThreadsPerBlock) return Code::kInvalidConfiguration;
  if (shape.shared_memory > static_cast<std::size_t>(kernel.dynamic_shared_limit.load(std::memory_order_relaxed)))
    return Code::kInvalidValue;
  device.statistics.launches.fetch_add(1, std::memory_order_relaxed);
  if (!InDeclaredOperation()) device.statistics.undeclared_launches.fetch_add(1, std::memory_order_relaxed);
  NoteLaunch(device);
  stream.Submit({.name = kernel.name.c_str(), .duration = TimeOfLaunch(stream, &shape)});
  return Code::kSuccess;
}

}  // namespace ebbtide::phantom
