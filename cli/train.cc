// ebbtide train MODEL --budget BYTES and ebbtide profile MODEL: run a training step here, on the CPU. Python does it
// (python/ebbtide/commands/train.py); this file checks the usage, so that mistakes are told without loading torch.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/memory_size.h"
#include "base/units.h"
#include "cli/common_flags.h"
#include "cli/python.h"
#include "cli/verb.h"
#include "jobs/plan.h"
#include "model/script.h"
#include "model/source.h"

namespace ebbtide::cli {
namespace {

struct TrainFlags {
  ModelFlags model;
  OutputFlags output;
  std::string budget, link, policy = "home";
  int steps = 5;
  int accumulate = 1;
  bool swap_state = false;
  bool check = false;
};

Status CheckModel(const ModelFlags& flags) {
  EBB_RETURN_IF_ERROR(model::CheckFunctionNamed(flags.model));
  if (flags.model.empty()) return Fail("expected a MODEL (see ebbtide models) or a SCRIPT.py:function");
  if (model::SourceOf(flags.model) == model::ModelSource::kScript) return {};
  EBB_RETURN_IF_ERROR(CheckBuiltIn(flags.model, "a SCRIPT.py:function or a built-in model"));
  return jobs::CheckModel(RequestOf(flags));
}

std::vector<std::string> SharedWords(const ModelFlags& model, const OutputFlags& output) {
  std::vector<std::string> words = ShapeWords(RequestOf(model));
  std::erase_if(words, [](const std::string& word) { return word.starts_with("--device="); });
  if (model.options.device == model::Device::kCuda) words.push_back("--device=cuda");
  words.push_back(fmt::format("--seed={}", output.seed));
  if (output.threads > 0) words.push_back(fmt::format("--threads={}", output.threads));
  if (output.json) words.push_back("--json");
  if (output.quiet) words.push_back("-q");
  if (output.verbose) words.push_back("-v");
  if (!output.output.empty()) words.insert(words.end(), {"-o", output.output});
  return words;
}

Result<int> Start(const std::string& verb, std::vector<std::string> words, const ModelFlags& model) {
  words.insert(words.begin(), verb);
  words.insert(words.end(), {"--", model.model});
  EBB_ASSIGN_OR_RETURN(const int code, RunPythonCommand("train", words, ChildOutput::kKeep));
  constexpr int kNoPlan = 3;  // 1 is how Python ends with a traceback
  return code == 1 ? kBadInput : code == kNoPlan ? kInfeasible : code;
}

Result<int> RunTrain(const TrainFlags& flags) {
  EBB_RETURN_IF_ERROR(CheckModel(flags.model));
  if (!flags.budget.empty() && !flags.budget.ends_with('%')) {
    const Result<Bytes> bytes = ParseMemory(flags.budget);
    if (!bytes) return Within("--budget", bytes.error());
  }
  EBB_RETURN_IF_ERROR(jobs::CheckPolicy(flags.policy));
  if (!flags.output.output.empty() && !flags.output.output.ends_with(".json") &&
      !flags.output.output.ends_with(".txt")) {
    return Fail("-o {}: expected a name that ends in .json or .txt", flags.output.output);
  }
  std::vector<std::string> words = SharedWords(flags.model, flags.output);
  words.push_back(fmt::format("--steps={}", flags.steps));
  words.push_back(fmt::format("--policy={}", flags.policy));
  if (flags.accumulate > 1) words.push_back(fmt::format("--accumulate={}", flags.accumulate));
  if (!flags.budget.empty()) words.push_back("--budget=" + flags.budget);
  if (!flags.link.empty()) words.push_back("--link=" + flags.link);
  if (flags.swap_state) words.push_back("--swap-state");
  if (flags.check) words.push_back("--check");
  return Start("train", std::move(words), flags.model);
}

Result<int> RunProfile(const TrainFlags& flags) {
  EBB_RETURN_IF_ERROR(CheckModel(flags.model));
  const std::string& path = flags.output.output;
  if (!path.empty() && !path.ends_with(".json") && !path.ends_with(".json.gz")) {
    return Fail("-o {}: expected a name that ends in .json or .json.gz", path);
  }
  return Start("profile", SharedWords(flags.model, flags.output), flags.model);
}

void AddShared(CLI::App& app, TrainFlags& flags) {
  app.add_option("MODEL", flags.model.model, "A built-in model, as PyTorch has it, or a SCRIPT.py:function")
      ->type_name("");
  AddShapeFlags(app, flags.model);
}

}  // namespace

Verb AddTrain(CLI::App& program) {
  CLI::App* app = program.add_subcommand("train", "Train on made-up data within a budget, on the CPU or a GPU");
  const auto flags = std::make_shared<TrainFlags>();
  AddShared(*app, *flags);
  app->add_option("--budget", flags->budget,
                  "Memory for everything a step holds, as 1GiB, or a share of what it takes without a plan, as 60% "
                  "(default: no limit)")
      ->type_name("BYTES|%");
  app->add_option("--steps", flags->steps, "How many (default 5)")->type_name("N")->check(Check(CheckPositive));
  app->add_option("--policy", flags->policy, "Who plans (default home)")->type_name("NAME");
  app->add_option("--link", flags->link, "Slow copies down to this, as 12GB/s (default: as fast as memory is)")
      ->type_name("BYTES/s");
  app->add_option("--accumulate", flags->accumulate, "Batches per update (default 1)")
      ->type_name("N")
      ->check(Check(CheckPositive));
  app->add_flag("--swap-state", flags->swap_state, "Parameters and optimizer state may go to the host for a while")
      ->disable_flag_override();
  app->add_flag("--check", flags->check, "Also train a copy by plain PyTorch, and compare every bit")
      ->disable_flag_override();
  AddOutputFlags(*app, flags->output, kResultWithoutPage);
  return {app, [flags] { return RunTrain(*flags); }};
}

Verb AddProfile(CLI::App& program) {
  CLI::App* app = program.add_subcommand("profile", "Measure the ops of a training step on this machine's CPU or GPU");
  const auto flags = std::make_shared<TrainFlags>();
  AddShared(*app, *flags);
  AddOutputFlags(*app, flags->output, "The graph with its times, a MODEL for ebbtide plan: .json or .json.gz");
  return {app, [flags] { return RunProfile(*flags); }};
}

}  // namespace ebbtide::cli
