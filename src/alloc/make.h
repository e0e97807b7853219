// Allocator models by the names that the command line takes.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/pytorch_options.h"
#include "base/result.h"

namespace ebbtide::alloc {

struct AllocatorModel {
  std::string name;
  std::string description;
  bool takes_pytorch_options = false;
  std::unique_ptr<Allocator> (*make)(const PytorchOptions& options, DeviceMemory& device, Streams& streams) = nullptr;
};
// Those of frameworks and libraries. Ebbtide's own is tide::Model(), in a folder that stands on this one.
const std::vector<AllocatorModel>& AllocatorModels();

struct AllocatorChoice {
  AllocatorModel model = AllocatorModels().front();  // "pytorch"
  PytorchOptions pytorch;
};

// What `name` and an option string mean together: options that choose another backend or expandable segments choose
// the model too. Errors name the flag that is wrong.
Result<AllocatorChoice> ChooseAllocator(const std::string& name, const std::string& pytorch_options,
                                        std::span<const AllocatorModel> models = AllocatorModels());

std::unique_ptr<Allocator> MakeAllocator(const AllocatorChoice& choice, DeviceMemory& device, Streams& streams);

}  // namespace ebbtide::alloc
