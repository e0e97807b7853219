// ebbtide share MODEL MODEL ...: will these trainings fit on one GPU together, and how fast are they.
#include "report/share.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <memory>

#include "base/file.h"
#include "cli/batch_search.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/plan_flags.h"
#include "cli/progress.h"
#include "cli/share_script.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "report/share_page.h"

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

struct Asked {
  std::string model;
  std::int64_t batch = 0;
  std::int64_t weight = 1, priority = 0;
  bool batch_given = false;
};

std::optional<std::int64_t> ParseWhole(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "resnet50", "resnet50:64", "train.py:step:64".
Result<Asked> ParseModel(const std::string& text, std::int64_t batch) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return Asked{text, batch};
  const auto number = ParseWhole(std::string_view(text).substr(colon + 1));
  if (!number) return Asked{text, batch};
  if (*number < 1) return Fail("{}: expected a batch of at least 1 behind the colon", text);
  Asked asked{text.substr(0, colon), *number};
  asked.batch_given = true;
  return asked;
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

Result<std::vector<Asked>> JobsOf(const Flags& flags) {
  if (flags.models.empty()) return Fail("expected MODELs, as resnet50:64 vgg16:32 (see ebbtide models)");
  if (flags.models.size() > kMostJobs)
    return Fail("expected at most {} jobs, found {}", kMostJobs, flags.models.size());
  std::vector<Asked> jobs;
  for (const std::string& model : flags.models) {
    EBB_ASSIGN_OR_RETURN(Asked asked, ParseModel(model, flags.model.options.batch_size));
    jobs.push_back(std::move(asked));
  }
  if (!flags.weights.empty()) {
    EBB_ASSIGN_OR_RETURN(const auto weights, ParseList("--weights", flags.weights, jobs.size(), 1, 1000));
    for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].weight = weights[i];
  }
  if (!flags.priorities.empty()) {
    EBB_ASSIGN_OR_RETURN(const auto priorities, ParseList("--priorities", flags.priorities, jobs.size(), -100, 100));
    for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].priority = priorities[i];
  }
  return jobs;
}

Result<share::MixOptions> OptionsOf(const Flags& flags) {
  EBB_ASSIGN_OR_RETURN(const DeviceProfile gpu, FindProfile(flags.device.gpu));
  share::MixOptions options = share::OptionsFor(gpu);
  EBB_ASSIGN_OR_RETURN(options.link, LinkOf(flags.device, gpu));
  options.together.link = options.link;
  options.cut.groups = flags.groups;
  options.may_plan = !flags.no_plan;
  options.threads = ThreadsOf(flags.output);
  if (!flags.capacity.empty()) {
    const Result<Bytes> capacity = ParseBytes(flags.capacity);
    if (!capacity || *capacity <= 0 || *capacity > kTooLarge) {
      return Fail("--capacity {}: expected a size such as 12GiB", flags.capacity);
    }
    options.capacity = *capacity;
  }
  return options;
}

// Trainings of the jobs at any batch, each made once; jobs that are alike share one.
class Trainings {
 public:
  Trainings(const Flags& flags, const std::vector<Asked>& jobs, const DeviceProfile& gpu)
      : flags_(flags), jobs_(jobs), gpu_(gpu) {}

  Result<std::shared_ptr<const share::Training>> At(std::size_t job, std::int64_t batch) {
    const Asked& asked = jobs_[job];
    auto& known = made_[{asked.model, batch, asked.weight, asked.priority}];
    if (known) return known;
    EBB_ASSIGN_OR_RETURN(TrainingGraph graph, GraphAt(asked, batch));
    const Bytes alignment = std::max<Bytes>(AlignmentOf(graph), 1);
    auto training = share::MakeTraining(asked.model, batch, std::move(graph), gpu_, alignment, asked.weight,
                                        static_cast<int>(asked.priority));
    if (training->workload.ops() == 0) return Fail("{}: expected a training step with ops", asked.model);
    return known = std::move(training);
  }

 private:
  Result<TrainingGraph> GraphAt(const Asked& asked, std::int64_t batch) {
    ModelFlags model = flags_.model;
    model.model = asked.model;
    model.options.batch_size = batch;
    if (!HasFreeBatch(model, {})) {
      if (flags_.max_batch || asked.batch_given) {
        return Fail("{}: a graph file has the batch it was captured at; expected neither :BATCH nor --max-batch",
                    asked.model);
      }
      return Load(model, flags_.output);
    }
    auto found = any_.find(asked.model);
    if (found == any_.end()) {
      EBB_ASSIGN_OR_RETURN(AnyBatchModel any, AnyBatchModel::Open(model, {}, flags_.output));
      found = any_.emplace(asked.model, std::move(any)).first;
    }
    return found->second.At(batch);
  }

  const Flags& flags_;
  const std::vector<Asked>& jobs_;
  const DeviceProfile& gpu_;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>, std::shared_ptr<const share::Training>>
      made_;
  std::map<std::string, AnyBatchModel> any_;
};

Result<report::ShareResult> Arrange(const Flags& flags, const std::vector<Asked>& jobs,
                                    const share::MixOptions& options) {
  Progress progress(flags.output);
  Trainings trainings(flags, jobs, options.gpu);
  report::ShareResult result{.gpu = options.gpu.name, .mix = {}, .common = {}, .compared = {}};
  std::vector<std::int64_t> batches;
  for (const Asked& job : jobs) batches.push_back(job.batch);
  if (flags.max_batch) {
    progress.Begin("largest common batch");
    std::vector<std::string> names;
    for (const Asked& job : jobs) names.push_back(job.model);
    share::CommonBatchOptions search;
    search.mix = options;
    search.progress = [&](const std::string& what) { progress.Show(0, what); };
    const share::TrainingAt at = [&](std::size_t job, std::int64_t batch) { return trainings.At(job, batch); };
    EBB_ASSIGN_OR_RETURN(result.common, share::FindCommonBatch(names, at, search));
    if (result.common->found()) batches = result.common->batches;
    result.mix = std::move(result.common->mix);
  }
  const bool searched_in_vain = flags.max_batch && !result.mix.fits;
  std::vector<std::shared_ptr<const share::Training>> at_batches;
  progress.Begin("lanes");
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EBB_ASSIGN_OR_RETURN(auto training, trainings.At(i, searched_in_vain ? 1 : batches[i]));
    at_batches.push_back(std::move(training));
  }
  if (!flags.max_batch || searched_in_vain) result.mix = share::ArrangeMix(at_batches, options);
  if (flags.compare) {
    const share::BaselineInput input = share::MakeBaselineInput(at_batches, options);
    for (const share::Baseline& baseline : share::Baselines()) {
      progress.Begin(std::string(baseline.name));
      result.compared.push_back(baseline.run(input));
    }
  }
  progress.Erase();
  return result;
}

Status WriteFiles(const Flags& flags, const report::ShareResult& result) {
  for (const std::string& file : flags.files) {
    std::string content;
    if (file.ends_with(".html")) {
      content = report::SharePage(result);
    } else if (file.ends_with(".txt")) {
      content = report::ShareText(result, kTextFile);
    } else {
      content = report::Print(report::ShareJson(result));
    }
    EBB_RETURN_IF_ERROR(WriteFile(file, content));
    Remark(flags.output, fmt::format("wrote {}", file));
  }
  return {};
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
  for (const std::string& file : flags.files) EBB_RETURN_IF_ERROR(CheckFile(file, {".json", ".html", ".txt"}));
  if (flags.groups > kMostGroups) return Fail("--groups: expected 1 to {}, found {}", kMostGroups, flags.groups);
  EBB_ASSIGN_OR_RETURN(const std::vector<Asked> jobs, JobsOf(flags));
  EBB_ASSIGN_OR_RETURN(const share::MixOptions options, OptionsOf(flags));
  EBB_ASSIGN_OR_RETURN(const report::ShareResult result, Arrange(flags, jobs, options));
  EBB_RETURN_IF_ERROR(WriteFiles(flags, result));
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
