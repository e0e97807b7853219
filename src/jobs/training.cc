// Parses how a training is run: the names, and the table of what versions of frameworks differ in.
#include "jobs/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/nearest.h"

namespace ebbtide::jobs {
namespace {

using estimate::BlasWorkspacePolicy;
using estimate::ZeroGrad;
using model::ModelSource;

constexpr std::array<std::pair<const char*, ZeroGrad>, 3> kZeroGrads = {
    {{"start", ZeroGrad::kStart}, {"before-backward", ZeroGrad::kBeforeBackward}, {"end", ZeroGrad::kEnd}}};
// Whether the loop keeps what the model returned until the next call.
constexpr std::array<std::pair<const char*, bool>, 2> kLoops = {{{"plain", true}, {"trainer", false}}};
constexpr std::int64_t kMostIterations = 1000;

// What frameworks and their versions differ in. Of PyTorch: measured by bench/install/versions_bench.py, which runs
// each version on the phantom GPU.
struct Version {
  std::string name;
  BlasWorkspacePolicy blas_workspace;
  bool ties_by_age;  // see alloc::PytorchOptions
  Framework framework = Framework::kPytorch;
};
struct PytorchRange {
  int first, last;  // minor versions, both included
  BlasWorkspacePolicy blas_workspace;
  bool ties_by_age;
};
// Asked: 2.6, 2.8, 2.10, 2.12 and 2.15. The others are taken as their neighbours (docs/install.md).
constexpr PytorchRange kPytorch[] = {{6, 10, BlasWorkspacePolicy::kKept, false},
                                     {11, 14, BlasWorkspacePolicy::kKept, true},
                                     {15, 15, BlasWorkspacePolicy::kPerCall, true}};
constexpr int kOldest = kPytorch[0].first, kNewest = std::end(kPytorch)[-1].last;

Version PytorchOf(int minor) {
  const PytorchRange& range = *std::ranges::find_if(kPytorch, [&](const PytorchRange& r) { return minor <= r.last; });
  return {fmt::format("pytorch-2.{}", minor), range.blas_workspace, range.ties_by_age};
}

std::vector<Version> AllVersions() {
  std::vector<Version> versions;
  for (int minor = kOldest; minor <= kNewest; ++minor) versions.push_back(PytorchOf(minor));
  versions.push_back({"mxnet", BlasWorkspacePolicy::kNone, false, Framework::kMxnet});
  versions.push_back({"tensorflow", BlasWorkspacePolicy::kNone, false, Framework::kTensorflow});
  return versions;
}

// The minor version of "2.8.0+cu128"; none where it is no version 2.
std::optional<int> MinorOf(const std::string& torch) {
  int minor = 0;
  const char* const begin = torch.data() + 2;
  if (!torch.starts_with("2.") || std::from_chars(begin, torch.data() + torch.size(), minor).ec != std::errc()) {
    return std::nullopt;
  }
  return minor;
}

constexpr std::array<std::pair<const char*, BlasWorkspacePolicy>, 3> kBlasWorkspaces = {
    {{"none", BlasWorkspacePolicy::kNone},
     {"kept", BlasWorkspacePolicy::kKept},
     {"per-call", BlasWorkspacePolicy::kPerCall}}};

// "pytorch": the torch that is installed, or the nearest version that is known; the newest where none is.
Result<Version> ParseVersion(const std::string& name, const std::string& torch) {
  if (name == "pytorch") return PytorchOf(std::clamp(MinorOf(torch).value_or(kNewest), kOldest, kNewest));
  for (const Version& version : AllVersions()) {
    if (name == version.name) return version;
  }
  return Fail("--framework: expected pytorch, pytorch-2.{} to pytorch-2.{}, mxnet or tensorflow, found {}{}", kOldest,
              kNewest, name, DidYouMean(name, FrameworkNames()));
}

// The framework of a file of its own; null: any.
const char* FrameworkOf(ModelSource source) {
  if (source == ModelSource::kMxnet) return "mxnet";
  if (source == ModelSource::kTensorflow) return "tensorflow";
  return nullptr;
}

Result<Version> ChooseVersion(const TrainingRequest& request, const ModelRequest& model) {
  const char* const own = FrameworkOf(SourceOf(model));
  const std::string name = !request.framework.empty() ? request.framework : own != nullptr ? own : "pytorch";
  EBB_ASSIGN_OR_RETURN(const Version version, ParseVersion(name, request.torch));
  if (own != nullptr && name != own) {
    return Fail("--framework {}: of no use with {}, expected {}", name, model.model, own);
  }
  return version;
}

template <typename Choices>
Result<typename Choices::value_type::second_type> ParseChoice(const char* flag, const std::string& text,
                                                              const Choices& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (text == name) return value;
    names.push_back(name);
  }
  return Fail("{}: expected {}, found {}{}", flag, JoinWithOr(names), text, DidYouMean(text, names));
}

Result<alloc::AllocatorChoice> AllocatorOf(const TrainingRequest& request, const Version& version) {
  if (version.framework == Framework::kPytorch) {
    if (!request.pool.empty()) {
      return Fail("--pool: of no use with pytorch, expected --framework mxnet or tensorflow");
    }
    EBB_ASSIGN_OR_RETURN(alloc::AllocatorChoice choice, alloc::ChooseAllocator("pytorch", request.alloc_conf));
    choice.pytorch.ties_by_age = version.ties_by_age;
    return choice;
  }
  if (!request.alloc_conf.empty()) {
    return Fail("--alloc-conf: of no use with --framework {}, expected --pool", version.name);
  }
  if (!request.cublas_workspace.empty()) {
    return Fail("--cublas-workspace: of no use with --framework {}", version.name);
  }
  if (request.cudnn_benchmark) return Fail("--cudnn-benchmark: of no use with --framework {}", version.name);
  if (version.framework == Framework::kTensorflow) {
    const std::string pool = request.pool.empty() ? "growth" : request.pool;
    if (pool != "growth" && pool != "fixed") return Fail("--pool: expected growth or fixed, found {}", pool);
    return alloc::ChooseAllocator(pool == "growth" ? "bfc-growth" : "bfc", "");
  }
  const std::string pool = request.pool.empty() ? "naive" : request.pool;
  if (pool != "naive" && pool != "round") return Fail("--pool: expected naive or round, found {}", pool);
  return alloc::ChooseAllocator("mxnet-" + pool, "");
}

}  // namespace

std::vector<std::string> FrameworkNames() {
  std::vector<std::string> names = {"pytorch"};
  for (const Version& version : AllVersions()) names.push_back(version.name);
  return names;
}

Result<Training> ParseTraining(const TrainingRequest& request, const ModelRequest& model) {
  EBB_RETURN_IF_ERROR(CheckNamed(model));
  EBB_ASSIGN_OR_RETURN(const Version version, ChooseVersion(request, model));
  if (request.iterations < 1 || request.iterations > kMostIterations) {
    return Fail("--iterations: expected 1 to {}, found {}", kMostIterations, request.iterations);
  }
  Training training{.framework = version.framework, .version = version.name, .options = {}};
  estimate::Options& options = training.options;
  options.training.iterations = request.iterations;
  const bool is_trained_so = SourceOf(model) == ModelSource::kHuggingFace;
  EBB_ASSIGN_OR_RETURN(options.training.keeps_outputs, ParseChoice("--loop",
                                                                   !request.loop.empty() ? request.loop
                                                                   : is_trained_so       ? "trainer"
                                                                                         : "plain",
                                                                   kLoops));
  const std::string usual = options.training.keeps_outputs ? "start" : "end";
  EBB_ASSIGN_OR_RETURN(options.training.zero_grad,
                       ParseChoice("--zero-grad", request.zero_grad.empty() ? usual : request.zero_grad, kZeroGrads));
  // What the first FSDP has reduced is its own until the next forward begins, whenever the loop lets go of it.
  if (model.layout.data == parallel::DataParallel::kFsdp1) options.training.zero_grad = ZeroGrad::kStart;
  EBB_ASSIGN_OR_RETURN(options.allocator, AllocatorOf(request, version));
  options.training.cudnn_benchmark = request.cudnn_benchmark;
  options.training.blas_workspace = version.blas_workspace;
  if (!request.cublas_workspace.empty()) {
    EBB_ASSIGN_OR_RETURN(options.training.blas_workspace,
                         ParseChoice("--cublas-workspace", request.cublas_workspace, kBlasWorkspaces));
  }
  return training;
}

const char* Name(estimate::ZeroGrad place) {
  return std::ranges::find(kZeroGrads, place, [](const auto& choice) { return choice.second; })->first;
}

}  // namespace ebbtide::jobs
