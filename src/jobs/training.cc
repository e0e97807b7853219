// Parses how a training is run: the names, and the table of what versions of frameworks differ in.
#include "jobs/training.h"

#include <algorithm>
#include <array>
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

// What frameworks and their versions differ in.
struct Version {
  const char* name;
  BlasWorkspacePolicy blas_workspace;
  bool ties_by_age;  // see alloc::PytorchOptions
  Framework framework = Framework::kPytorch;
};
constexpr std::array<Version, 5> kVersions = {
    {{"pytorch", BlasWorkspacePolicy::kPerCall, true},
     {"pytorch-2.15", BlasWorkspacePolicy::kPerCall, true},
     {"pytorch-2.6", BlasWorkspacePolicy::kKept, false},
     {"mxnet", BlasWorkspacePolicy::kNone, false, Framework::kMxnet},
     {"tensorflow", BlasWorkspacePolicy::kNone, false, Framework::kTensorflow}}};
constexpr std::array<std::pair<const char*, BlasWorkspacePolicy>, 3> kBlasWorkspaces = {
    {{"none", BlasWorkspacePolicy::kNone},
     {"kept", BlasWorkspacePolicy::kKept},
     {"per-call", BlasWorkspacePolicy::kPerCall}}};

Result<Version> ParseVersion(const std::string& name) {
  std::vector<std::string> names;
  for (const Version& version : kVersions) {
    if (name == version.name) return version;
    names.push_back(version.name);
  }
  return Fail("--framework: expected {}, found {}{}", JoinWithOr(names), name, DidYouMean(name, names));
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
  EBB_ASSIGN_OR_RETURN(const Version version, ParseVersion(name));
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
      return Fail("--pool: of no use with {}, expected --framework mxnet or tensorflow", version.name);
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

Result<Training> ParseTraining(const TrainingRequest& request, const ModelRequest& model) {
  EBB_RETURN_IF_ERROR(CheckNamed(model));
  EBB_ASSIGN_OR_RETURN(const Version version, ChooseVersion(request, model));
  if (request.iterations < 1 || request.iterations > kMostIterations) {
    return Fail("--iterations: expected 1 to {}, found {}", kMostIterations, request.iterations);
  }
  Training training{.framework = version.framework, .options = {}};
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
  EBB_ASSIGN_OR_RETURN(options.allocator, AllocatorOf(request, version));
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
