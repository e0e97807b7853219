// ebbtide share MODEL MODEL ...: will these trainings fit on one GPU together, and how fast are they.
#include "jobs/share.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "base/file.h"
#include "base/memory_size.h"
#include "cli/command_context.h"
#include "cli/output.h"
#include "cli/plan_flags.h"
#include "cli/share_script.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "report/json/share.h"
#include "report/page/share_page.h"
#include "report/text/share.h"

namespace ebbtide::cli {
namespace {

constexpr std::size_t kMostJobs = 16;
constexpr int kMostGroups = 256;

struct Flags {
  ModelFlags model;
  OutputFlags output;
  PlanFlags device;  // --gpu and --link
  std::vector<std::string> models;
  std::vector<std::string> files;
  std::string capacity;
  std::string weights, priorities;
  int groups = 16;
  bool max_batch = false, compare = false, no_plan = false;
  ShareScripts real;                                      // --script
  std::vector<const CLI::Option*> of_scripts, of_models;  // of no use without, and with, --script
};

std::optional<std::int64_t> ParseWhole(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "resnet50", "resnet50:64", "train.py:step:64".
Result<jobs::ShareJobRequest> ParseModel(const std::string& text, ModelFlags flags) {
  const std::size_t colon = text.rfind(':');
  const auto number = colon == std::string::npos ? std::nullopt : ParseWhole(std::string_view(text).substr(colon + 1));
  if (number && *number < 1) return Fail("{}: expected a batch of at least 1 behind the colon", text);
  flags.model = number ? text.substr(0, colon) : text;
  flags.options.batch_size = number.value_or(flags.options.batch_size);
  return jobs::ShareJobRequest{.model = RequestOf(flags), .batch_given = number.has_value()};
}

// "1,2,1", one for each job.
Result<std::vector<std::int64_t>> ParseList(const char* flag, const std::string& text, std::size_t count,
                                            std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto number = ParseWhole(std::string_view(text).substr(begin, end - begin));
    if (!number || *number < least || *number > most) {
      return Fail("{} {}: expected whole numbers from {} to {} with commas between", flag, text, least, most);
    }
    out.push_back(*number);
    begin = end + 1;
  }
  if (out.size() != count) return Fail("{} {}: expected {} numbers, one for each job", flag, text, count);
  return out;
}

Result<std::vector<jobs::ShareJobRequest>> JobsOf(const Flags& flags) {
  if (flags.models.empty()) return Fail("expected MODELs, as resnet50:64 vgg16:32 (see ebbtide models)");
  if (flags.models.size() > kMostJobs)
    return Fail("expected at most {} jobs, found {}", kMostJobs, flags.models.size());
  std::vector<jobs::ShareJobRequest> jobs;
  for (const std::string& model : flags.models) {
    EBB_ASSIGN_OR_RETURN(jobs::ShareJobRequest job, ParseModel(model, flags.model));
    jobs.push_back(std::move(job));
  }
  if (!flags.weights.empty()) {
    EBB_ASSIGN_OR_RETURN(const auto weights, ParseList("--weights", flags.weights, jobs.size(), 1, 1000));
    for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].weight = weights[i];
  }
  if (!flags.priorities.empty()) {
    EBB_ASSIGN_OR_RETURN(const auto priorities, ParseList("--priorities", flags.priorities, jobs.size(), -100, 100));
    for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].priority = static_cast<int>(priorities[i]);
  }
  return jobs;
}

Result<jobs::ShareRequest> ShareRequestOf(const Flags& flags) {
  jobs::ShareRequest request;
  EBB_ASSIGN_OR_RETURN(request.jobs, JobsOf(flags));
  EBB_ASSIGN_OR_RETURN(request.gpu, FindProfile(flags.device.gpu));
  EBB_ASSIGN_OR_RETURN(request.link, LinkOf(flags.device, request.gpu));
  request.groups = flags.groups;
  request.may_plan = !flags.no_plan;
  request.max_batch = flags.max_batch;
  request.compare = flags.compare;
  if (!flags.capacity.empty()) {
    const Result<Bytes> capacity = ParseMemory(flags.capacity);
    if (!capacity) return Within("--capacity", capacity.error());
    if (*capacity <= 0 || *capacity > kTooLarge) {
      return Fail("--capacity {}: expected a size such as 12GiB", flags.capacity);
    }
    request.capacity = *capacity;
  }
  return request;
}

std::vector<Face> FacesOf(const jobs::ShareResult& result) {
  return {{".html", [&] { return report::SharePage(result); }},
          {".txt", [&] { return report::ShareText(result, kTextFile); }},
          {".json", [&] { return report::Print(report::ShareJson(result)); }}};
}

Result<int> RunReal(const Flags& flags) {
  if (!flags.models.empty()) return Fail("{}: expected either MODELs or --script", flags.models.front());
  for (const CLI::Option* flag : flags.of_models) {
    if (flag->count() > 0) return Fail("{}: of no use with --script", flag->get_name());
  }
  ShareScripts share = flags.real;
  share.capacity = flags.capacity;
  share.groups = flags.groups;
  share.weights = flags.weights, share.priorities = flags.priorities;
  share.files = flags.files;
  return RunShareScripts(share, flags.model, flags.output);
}

Result<int> RunShare(const Flags& flags) {
  if (!flags.real.scripts.empty()) return RunReal(flags);
  for (const CLI::Option* flag : flags.of_scripts) {
    if (flag->count() > 0) return Fail("{}: of no use without --script", flag->get_name());
  }
  EBB_RETURN_IF_ERROR(CheckFiles(flags.files, {".json", ".html", ".txt"}));
  if (flags.groups > kMostGroups) return Fail("--groups: expected 1 to {}, found {}", kMostGroups, flags.groups);
  EBB_ASSIGN_OR_RETURN(const jobs::ShareRequest request, ShareRequestOf(flags));
  EBB_ASSIGN_OR_RETURN(const jobs::ShareResult result, jobs::Share(request, CommandContext(flags.output).job()));
  EBB_RETURN_IF_ERROR(WriteFiles(flags.output, flags.files, FacesOf(result)));
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::ShareJson(result),
                           [&](const report::Terminal& terminal) { return report::ShareText(result, terminal); }));
  return result.mix.fits ? kSuccess : kInfeasible;
}

}  // namespace

Verb AddShare(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("share", "Tell whether trainings fit on one GPU together, and how fast they are");
  const auto flags = std::make_shared<Flags>();
  AddCudaModelFlags(*app, flags->model);
  app->remove_option(app->get_option("MODEL"));
  app->add_option("MODEL", flags->models,
                  "Two or more, each with its batch: resnet50:64; what `ebbtide plan` takes as a MODEL (default batch: "
                  "--batch-size)")
      ->type_name("")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddGpuFlags(*app, flags->device);
  app->add_option(
         "--script", flags->real.scripts,
         "Instead of MODELs: a SCRIPT.py:function to train here, together with the others; may be given several "
         "times")
      ->type_name("SCRIPT.py:function")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  flags->of_scripts = {
      app->add_option("--steps", flags->real.steps, "With --script: iterations of each (default 5)")
          ->type_name("N")
          ->check(Check(CheckPositive)),
      app->add_option("--device", flags->real.device, "With --script: cpu (default) or cuda")->type_name("NAME")};
  app->add_option("--capacity", flags->capacity,
                  "Device memory for all of them (default: the GPU's beside one context)")
      ->type_name("BYTES");
  app->add_option("--groups", flags->groups, "NodeGroups of an iteration (default 16)")
      ->type_name("N")
      ->check(Check(CheckPositive));
  app->add_option("--weights", flags->weights, "Iterations of each job beside the others', as 2,1 (default: alike)")
      ->type_name("N,N,...");
  app->add_option("--priorities", flags->priorities,
                  "Of jobs that wait, the highest goes first, as 1,0 (default: alike)")
      ->type_name("N,N,...");
  app->add_flag("--max-batch", flags->max_batch, "Find the largest common batch")->disable_flag_override();
  app->add_flag("--compare", flags->compare, "Also other ways of sharing a GPU")->disable_flag_override();
  app->add_flag("--no-plan", flags->no_plan, "Never let a job run under a plan (see ebbtide plan)")
      ->disable_flag_override();
  for (const char* name : {"--gpu", "--link", "--max-batch", "--compare", "--no-plan"}) {
    flags->of_models.push_back(app->get_option(name));
  }
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files, ".html a page with memory over time, .json the object, .txt");
  return {app, [flags] { return RunShare(*flags); }};
}

}  // namespace ebbtide::cli
