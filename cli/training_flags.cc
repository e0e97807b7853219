#include "cli/training_flags.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/nearest.h"
#include "model/mxnet/mxnet.h"
#include "model/tensorflow/tensorflow.h"

namespace ebbtide::cli {
namespace {

using estimate::BlasWorkspacePolicy;
using estimate::ZeroGrad;

constexpr std::array<std::pair<const char*, ZeroGrad>, 3> kZeroGrads = {
    {{"start", ZeroGrad::kStart}, {"before-backward", ZeroGrad::kBeforeBackward}, {"end", ZeroGrad::kEnd}}};
constexpr std::int64_t kMostIterations = 1000;

// What versions of PyTorch differ in.
struct Version {
  const char* name;
  BlasWorkspacePolicy blas_workspace;
  bool ties_by_age;  // see alloc::PytorchOptions
  model::Framework framework = model::Framework::kPytorch;
};
constexpr std::array<Version, 5> kVersions = {
    {{"pytorch", BlasWorkspacePolicy::kPerCall, true},
     {"pytorch-2.15", BlasWorkspacePolicy::kPerCall, true},
     {"pytorch-2.6", BlasWorkspacePolicy::kKept, false},
     {"mxnet", BlasWorkspacePolicy::kNone, false, model::Framework::kMxnet},
     {"tensorflow", BlasWorkspacePolicy::kNone, false, model::Framework::kTensorflow}}};
constexpr std::array<std::pair<const char*, BlasWorkspacePolicy>, 3> kBlasWorkspaces = {
    {{"none", BlasWorkspacePolicy::kNone},
     {"kept", BlasWorkspacePolicy::kKept},
     {"per-call", BlasWorkspacePolicy::kPerCall}}};

Result<Version> ParseFramework(const std::string& name) {
  std::vector<std::string> names;
  for (const Version& version : kVersions) {
    if (name == version.name) return version;
    names.push_back(version.name);
  }
  return Fail("--framework: expected {}, found {}{}", JoinWithOr(names), name, DidYouMean(name, names));
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

}  // namespace

void AddTrainingFlags(CLI::App& verb, TrainingFlags& flags) {
  verb.option_defaults()->group("Training");
  verb.add_option(
          "--framework", flags.framework,
          "Whose runtime it runs in: pytorch (that of 2.15), pytorch-2.6, mxnet or tensorflow; default: that of the "
          "file, else pytorch")
      ->type_name("NAME");
  verb.add_option("--pool", flags.pool,
                  "MXNet's storage manager: naive (default) or round; TensorFlow's memory: growth "
                  "(default) or fixed, all of the device at once")
      ->type_name("NAME");
  verb.add_option("--zero-grad", flags.zero_grad,
                  "Where the loop drops gradients: start (default), before-backward or end")
      ->type_name("PLACE");
  verb.add_option("--iterations", flags.iterations, "Iterations to go through (default 3)")
      ->type_name("N")
      ->check(Check(CheckPositive));
  verb.add_option("--alloc-conf", flags.alloc_conf, "How PyTorch's allocator is set up, as in PYTORCH_ALLOC_CONF")
      ->type_name("TEXT");
  verb.add_option("--other-batch", flags.other_batches,
                  "With a graph file: a capture of the same step at another batch, from which all others follow; "
                  "may be given several times")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_option("--cublas-workspace", flags.cublas_workspace,
                  "What matrix products take beside their tensors: none (CUBLAS_WORKSPACE_CONFIG=:0:0), kept "
                  "(by each thread, for good) or per-call; default: as the framework has it")
      ->type_name("POLICY");
}

void AddCudaModelFlags(CLI::App& verb, ModelFlags& flags) {
  AddModelFlags(verb, flags);
  flags.options.device = model::Device::kCuda;
  CLI::Option* device = verb.get_option("--device");
  std::erase(flags.shaping, device);
  verb.remove_option(device);
}

namespace {

Result<alloc::AllocatorChoice> AllocatorOf(const TrainingFlags& flags, const Version& version) {
  if (version.framework == model::Framework::kPytorch) {
    if (!flags.pool.empty())
      return Fail("--pool: of no use with {}, expected --framework mxnet or tensorflow", version.name);
    EBB_ASSIGN_OR_RETURN(alloc::AllocatorChoice choice, alloc::ChooseAllocator("pytorch", flags.alloc_conf));
    choice.pytorch.ties_by_age = version.ties_by_age;
    return choice;
  }
  if (!flags.alloc_conf.empty())
    return Fail("--alloc-conf: of no use with --framework {}, expected --pool", version.name);
  if (!flags.cublas_workspace.empty()) return Fail("--cublas-workspace: of no use with --framework {}", version.name);
  if (version.framework == model::Framework::kTensorflow) {
    const std::string pool = flags.pool.empty() ? "growth" : flags.pool;
    if (pool != "growth" && pool != "fixed") return Fail("--pool: expected growth or fixed, found {}", pool);
    return alloc::ChooseAllocator(pool == "growth" ? "bfc-growth" : "bfc", "");
  }
  const std::string pool = flags.pool.empty() ? "naive" : flags.pool;
  if (pool != "naive" && pool != "round") return Fail("--pool: expected naive or round, found {}", pool);
  return alloc::ChooseAllocator("mxnet-" + pool, "");
}

}  // namespace

Status ChooseFramework(TrainingFlags& training, ModelFlags& model) {
  const char* own = model::mxnet::IsSymbolFile(model.model)       ? "mxnet"
                    : model::tensorflow::IsModelPath(model.model) ? "tensorflow"
                                                                  : nullptr;
  if (training.framework.empty()) training.framework = own != nullptr ? own : "pytorch";
  EBB_ASSIGN_OR_RETURN(const Version version, ParseFramework(training.framework));
  if (own != nullptr && training.framework != own) {
    return Fail("--framework {}: of no use with {}, expected {}", training.framework, model.model, own);
  }
  model.options.framework = version.framework;
  return {};
}

Result<estimate::Options> OptionsOf(const TrainingFlags& flags) {
  EBB_ASSIGN_OR_RETURN(const Version version, ParseFramework(flags.framework.empty() ? "pytorch" : flags.framework));
  if (flags.iterations > kMostIterations) {
    return Fail("--iterations: expected 1 to {}, found {}", kMostIterations, flags.iterations);
  }
  estimate::Options options;
  options.training.iterations = flags.iterations;
  EBB_ASSIGN_OR_RETURN(options.training.zero_grad, ParseChoice("--zero-grad", flags.zero_grad, kZeroGrads));
  EBB_ASSIGN_OR_RETURN(options.allocator, AllocatorOf(flags, version));
  options.training.blas_workspace = version.blas_workspace;
  if (!flags.cublas_workspace.empty()) {
    EBB_ASSIGN_OR_RETURN(options.training.blas_workspace,
                         ParseChoice("--cublas-workspace", flags.cublas_workspace, kBlasWorkspaces));
  }
  return options;
}

}  // namespace ebbtide::cli
