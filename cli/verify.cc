// ebbtide verify [MODEL[:BATCH] ...]: predicted, dryrun and measured, side by side. Python does it
// (python/ebbtide/commands/verify.py); this file checks the usage, so that mistakes are told without loading torch.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/common_flags.h"
#include "cli/output.h"
#include "cli/python.h"
#include "cli/verb.h"
#include "device/profile.h"

namespace ebbtide::cli {
namespace {

struct VerifyFlags {
  ModelFlags model;  // of which the optimizer counts
  std::vector<std::string> models;
  OutputFlags output;
  std::string gpu;
  bool no_train = false;
};

Result<int> RunVerify(const VerifyFlags& flags) {
  for (const std::string& word : flags.models) EBB_RETURN_IF_ERROR(CheckBuiltIn(word.substr(0, word.find(':'))));
  if (!flags.gpu.empty()) EBB_RETURN_IF_ERROR(FindProfile(flags.gpu));
  EBB_RETURN_IF_ERROR(jobs::CheckOptimizer(flags.model.options.optimizer));
  EBB_RETURN_IF_ERROR(CheckOutput(flags.output, {".json", ".txt"}));
  std::vector<std::string> words = flags.models;
  if (!flags.gpu.empty()) words.insert(words.end(), {"--gpu", flags.gpu});
  if (flags.no_train) words.push_back("--no-train");
  words.push_back(fmt::format("--optimizer={}", flags.model.options.optimizer));
  if (flags.output.json) words.push_back("--json");
  if (flags.output.quiet) words.push_back("-q");
  if (!flags.output.output.empty()) words.insert(words.end(), {"-o", flags.output.output});
  EBB_ASSIGN_OR_RETURN(const int code, RunPythonCommand("verify", words, ChildOutput::kKeep));
  constexpr int kBroken = 3;  // 1 is how Python ends with a traceback
  return code == 1 ? kBadInput : code == kBroken ? kInfeasible : code;
}

}  // namespace

Verb AddVerify(CLI::App& program) {
  CLI::App* app = program.add_subcommand("verify", "Predicted, dryrun and measured, side by side, on your GPU");
  const auto flags = std::make_shared<VerifyFlags>();
  app->add_option("MODEL[:BATCH]", flags->models, "Built-in models (default: resnet50:32 vgg16:32 bert-base:8 gpt2:4)")
      ->type_name("");
  app->add_option("--gpu", flags->gpu, "The profile of your GPU, where it is not found by its name")
      ->type_name("NAME|FILE");
  app->add_option("--optimizer", flags->model.options.optimizer, "Default sgd")->type_name("NAME");
  app->add_flag("--no-train", flags->no_train, "Leave out training within a budget")->disable_flag_override();
  AddOutputFlags(*app, flags->output, kResultWithoutPage);
  return {app, [flags] { return RunVerify(*flags); }};
}

}  // namespace ebbtide::cli
