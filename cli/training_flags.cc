#include "cli/training_flags.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/nearest.h"

namespace ebbtide::cli {
namespace {

using estimate::ZeroGrad;

constexpr std::array<std::pair<const char*, ZeroGrad>, 3> kZeroGrads = {
    {{"start", ZeroGrad::kStart}, {"before-backward", ZeroGrad::kBeforeBackward}, {"end", ZeroGrad::kEnd}}};
constexpr std::int64_t kMostIterations = 1000;

Status CheckFramework(const std::string& name) {
  if (name == "pytorch") return {};
  if (name == "tensorflow" || name == "mxnet") {
    return Fail("--framework: {} is not modelled; expected pytorch", name);
  }
  return Fail("--framework: expected pytorch, found {}{}", name, DidYouMean(name, {"pytorch"}));
}

Result<ZeroGrad> ParseZeroGrad(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [name, position] : kZeroGrads) {
    if (text == name) return position;
    names.push_back(name);
  }
  return Fail("--zero-grad: expected {}, found {}{}", JoinWithOr(names), text, DidYouMean(text, names));
}

}  // namespace

void AddTrainingFlags(CLI::App& verb, TrainingFlags& flags) {
  verb.option_defaults()->group("Training");
  verb.add_option("--framework", flags.framework, "Whose runtime it runs in: pytorch (default)")->type_name("NAME");
  verb.add_option("--zero-grad", flags.zero_grad,
                  "Where the loop drops gradients: start (default), before-backward or end")
      ->type_name("PLACE");
  verb.add_option("--iterations", flags.iterations, "Iterations to go through (default 3)")
      ->type_name("N")
      ->check(Check(CheckPositive));
  verb.add_option("--alloc-conf", flags.alloc_conf, "How PyTorch's allocator is set up, as in PYTORCH_ALLOC_CONF")
      ->type_name("TEXT");
}

void AddCudaModelFlags(CLI::App& verb, ModelFlags& flags) {
  AddModelFlags(verb, flags);
  flags.options.device = model::Device::kCuda;
  CLI::Option* device = verb.get_option("--device");
  std::erase(flags.shaping, device);
  verb.remove_option(device);
}

Result<estimate::Options> OptionsOf(const TrainingFlags& flags) {
  EBB_RETURN_IF_ERROR(CheckFramework(flags.framework));
  if (flags.iterations > kMostIterations) {
    return Fail("--iterations: expected 1 to {}, found {}", kMostIterations, flags.iterations);
  }
  estimate::Options options;
  options.training.iterations = flags.iterations;
  EBB_ASSIGN_OR_RETURN(options.training.zero_grad, ParseZeroGrad(flags.zero_grad));
  EBB_ASSIGN_OR_RETURN(options.allocator, alloc::ChooseAllocator("pytorch", flags.alloc_conf));
  return options;
}

}  // namespace ebbtide::cli
