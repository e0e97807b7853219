// The table of models, and the choice among them.
#include "alloc/make.h"

#include <algorithm>

#include "alloc/bfc.h"
#include "alloc/cuda_malloc_async.h"
#include "alloc/mxnet_pool.h"
#include "alloc/no_fragmentation.h"
#include "alloc/pytorch.h"
#include "alloc/pytorch_expandable.h"
#include "alloc/rmm.h"
#include "base/nearest.h"

namespace ebbtide::alloc {
namespace {

using Made = std::unique_ptr<Allocator>;
using Options = PytorchOptions;

const AllocatorModel& Find(std::span<const AllocatorModel> models, std::string_view name) {
  return *std::ranges::find(models, name, &AllocatorModel::name);
}

}  // namespace

const std::vector<AllocatorModel>& AllocatorModels() {
  static const std::vector<AllocatorModel> models = {
      {"pytorch", "PyTorch's caching allocator", true,
       [](const Options& options, DeviceMemory& device, Streams& streams) -> Made {
         return std::make_unique<PytorchAllocator>(options, device, streams);
       }},
      {"pytorch-expandable", "the same with expandable_segments:True", true,
       [](const Options& options, DeviceMemory& device, Streams& streams) -> Made {
         return std::make_unique<PytorchExpandableAllocator>(options, device, streams);
       }},
      {"cuda-malloc-async", "PyTorch's backend:cudaMallocAsync", true,
       [](const Options& options, DeviceMemory& device, Streams& streams) -> Made {
         return std::make_unique<CudaMallocAsyncAllocator>(options, device, streams);
       }},
      {"rmm", "a pool in the manner of RMM: a list of free memory per stream", false,
       [](const Options&, DeviceMemory& device, Streams&) -> Made { return std::make_unique<RmmAllocator>(device); }},
      {"bfc", "TensorFlow's allocator, one region of all that is free", false,
       [](const Options&, DeviceMemory& device, Streams&) -> Made {
         return std::make_unique<BfcAllocator>(BfcOptions(), device);
       }},
      {"bfc-growth", "the same with allow_growth", false,
       [](const Options&, DeviceMemory& device, Streams&) -> Made {
         return std::make_unique<BfcAllocator>(BfcOptions{.allow_growth = true}, device);
       }},
      {"mxnet-naive", "MXNet's pool of exact sizes, its default", false,
       [](const Options&, DeviceMemory& device, Streams&) -> Made {
         return std::make_unique<MxnetPoolAllocator>(MxnetPoolOptions(), device);
       }},
      {"mxnet-round", "MXNet's pool of powers of two", false,
       [](const Options&, DeviceMemory& device, Streams&) -> Made {
         return std::make_unique<MxnetPoolAllocator>(MxnetPoolOptions{.type = MxnetPoolOptions::Type::kRound}, device);
       }},
      {"no-fragmentation", "a bound: exactly what is in use", false,
       [](const Options&, DeviceMemory& device, Streams& streams) -> Made {
         return std::make_unique<NoFragmentationAllocator>(device, streams);
       }},
  };
  return models;
}

Result<AllocatorChoice> ChooseAllocator(const std::string& name, const std::string& pytorch_options,
                                        std::span<const AllocatorModel> models) {
  const auto model = std::ranges::find(models, name, &AllocatorModel::name);
  if (model == models.end()) {
    std::vector<std::string> names;
    for (const AllocatorModel& known : models) names.emplace_back(known.name);
    return Fail("--allocator {}: expected {}{}", name, JoinWithOr(names), DidYouMean(name, names));
  }
  AllocatorChoice choice{.model = *model, .pytorch = {}};
  if (!pytorch_options.empty()) {
    if (!model->takes_pytorch_options) return Fail("--alloc-conf: {} has no options", name);
    const Result<PytorchOptions> options = ParsePytorchOptions(pytorch_options);
    if (!options) return Within("--alloc-conf", options.error());
    choice.pytorch = *options;
  }
  if (choice.pytorch.backend == PytorchOptions::Backend::kCudaMallocAsync) {
    choice.model = Find(AllocatorModels(), "cuda-malloc-async");
  } else if (name == "pytorch" && choice.pytorch.expandable_segments) {
    choice.model = Find(AllocatorModels(), "pytorch-expandable");
  }
  return choice;
}

std::unique_ptr<Allocator> MakeAllocator(const AllocatorChoice& choice, DeviceMemory& device, Streams& streams) {
  return choice.model.make(choice.pytorch, device, streams);
}

}  // namespace ebbtide::alloc
