// Allocator models by the names that the command line takes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/pytorch_options.h"
#include "base/result.h"

namespace ebbtide::alloc {

struct AllocatorModel {
  std::string_view name;
  std::string_view description;
  bool takes_pytorch_options = false;
};
const std::vector<AllocatorModel>& AllocatorModels();

struct AllocatorChoice {
  std::string name = "pytorch";
  PytorchOptions pytorch;
};

// What `name` and an option string mean together: options that choose another backend or expandable segments choose
// the model too. Errors name the flag that is wrong.
Result<AllocatorChoice> ChooseAllocator(const std::string& name, const std::string& pytorch_options);

// Of a choice that ChooseAllocator made.
std::unique_ptr<Allocator> MakeAllocator(const AllocatorChoice& choice, DeviceMemory& device, Streams& streams);

}  // namespace ebbtide::alloc
