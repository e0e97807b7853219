#include "alloc/make.h"

#include <algorithm>
#include <cassert>

#include "alloc/bfc.h"
#include "alloc/cuda_malloc_async.h"
#include "alloc/mxnet_pool.h"
#include "alloc/no_fragmentation.h"
#include "alloc/pytorch.h"
#include "alloc/pytorch_expandable.h"
#include "alloc/rmm.h"
#include "alloc/tide.h"
#include "base/nearest.h"

namespace ebbtide::alloc {
namespace {

constexpr std::string_view kPytorch = "pytorch", kExpandable = "pytorch-expandable", kAsync = "cuda-malloc-async",
                           kRmm = "rmm", kTide = "tide", kBfc = "bfc", kBfcGrowth = "bfc-growth",
                           kMxnetNaive = "mxnet-naive", kMxnetRound = "mxnet-round",
                           kNoFragmentation = "no-fragmentation";

}  // namespace

const std::vector<AllocatorModel>& AllocatorModels() {
  static const std::vector<AllocatorModel> models = {
      {kPytorch, "PyTorch's caching allocator", true},
      {kExpandable, "the same with expandable_segments:True", true},
      {kAsync, "PyTorch's backend:cudaMallocAsync", true},
      {kRmm, "a pool in the manner of RMM: a list of free memory per stream", false},
      {kTide, "Ebbtide's own: streams share what they free as soon as the free is scheduled", false},
      {kBfc, "TensorFlow's allocator, one region of all that is free", false},
      {kBfcGrowth, "the same with allow_growth", false},
      {kMxnetNaive, "MXNet's pool of exact sizes, its default", false},
      {kMxnetRound, "MXNet's pool of powers of two", false},
      {kNoFragmentation, "a bound: exactly what is in use", false},
  };
  return models;
}

Result<AllocatorChoice> ChooseAllocator(const std::string& name, const std::string& pytorch_options) {
  const std::vector<AllocatorModel>& models = AllocatorModels();
  const auto model = std::find_if(models.begin(), models.end(), [&](const auto& m) { return m.name == name; });
  if (model == models.end()) {
    std::vector<std::string> names;
    for (const AllocatorModel& known : models) names.emplace_back(known.name);
    return Fail("--allocator {}: expected {}{}", name, JoinWithOr(names), DidYouMean(name, names));
  }
  AllocatorChoice choice{.name = name, .pytorch = {}};
  if (!pytorch_options.empty()) {
    if (!model->takes_pytorch_options) return Fail("--alloc-conf: {} has no options", name);
    const Result<PytorchOptions> options = ParsePytorchOptions(pytorch_options);
    if (!options) return Within("--alloc-conf", options.error());
    choice.pytorch = *options;
  }
  if (choice.pytorch.backend == PytorchOptions::Backend::kCudaMallocAsync) {
    choice.name = kAsync;
  } else if (name == kPytorch && choice.pytorch.expandable_segments) {
    choice.name = kExpandable;
  }
  return choice;
}

std::unique_ptr<Allocator> MakeAllocator(const AllocatorChoice& choice, DeviceMemory& device, Streams& streams) {
  if (choice.name == kPytorch) return std::make_unique<PytorchAllocator>(choice.pytorch, device, streams);
  if (choice.name == kExpandable) {
    return std::make_unique<PytorchExpandableAllocator>(choice.pytorch, device, streams);
  }
  if (choice.name == kAsync) return std::make_unique<CudaMallocAsyncAllocator>(choice.pytorch, device, streams);
  if (choice.name == kRmm) return std::make_unique<RmmAllocator>(device);
  if (choice.name == kTide) return std::make_unique<TideAllocator>(device, streams);
  if (choice.name == kBfc) return std::make_unique<BfcAllocator>(BfcOptions(), device);
  if (choice.name == kBfcGrowth) return std::make_unique<BfcAllocator>(BfcOptions{.allow_growth = true}, device);
  if (choice.name == kMxnetNaive) return std::make_unique<MxnetPoolAllocator>(MxnetPoolOptions(), device);
  if (choice.name == kMxnetRound) {
    return std::make_unique<MxnetPoolAllocator>(MxnetPoolOptions{.type = MxnetPoolOptions::Type::kRound}, device);
  }
  assert(choice.name == kNoFragmentation);
  return std::make_unique<NoFragmentationAllocator>(device, streams);
}

}  // namespace ebbtide::alloc
