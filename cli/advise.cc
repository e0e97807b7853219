// ebbtide advise MODEL --gpu NAME: which measures make a training fit.
#include "jobs/advise.h"

#include <memory>

#include "cli/command_context.h"
#include "cli/layout_flags.h"
#include "cli/output.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "report/json/advise.h"
#include "report/page/result_page.h"
#include "report/text/advise.h"

namespace ebbtide::cli {
namespace {

struct AdviseFlags {
  ModelFlags model;
  TrainingFlags training;
  OutputFlags output;
  std::string gpu = "a100-40gb";
  std::vector<std::string> files;
};

Result<int> RunAdvise(const AdviseFlags& flags) {
  const jobs::AdviseRequest request{
      .model = RequestOf(flags.model), .training = flags.training.request, .gpu = flags.gpu};
  EBB_RETURN_IF_ERROR(CheckFiles(flags.files, {".html", ".json", ".txt"}));
  EBB_ASSIGN_OR_RETURN(const jobs::AdviseResult result, jobs::Advise(request, CommandContext(flags.output).job()));
  const report::Json json = report::AdviseJson(result);
  EBB_ASSIGN_OR_RETURN(const std::string page, report::ResultPage(json));
  EBB_RETURN_IF_ERROR(WriteFiles(flags.output, flags.files,
                                 {{".html", [&] { return page; }},
                                  {".json", [&] { return report::Print(json); }},
                                  {".txt", [&] { return report::AdviseText(result, kTextFile); }}}));
  EBB_RETURN_IF_ERROR(
      Emit(flags.output, json, [&](const report::Terminal& terminal) { return report::AdviseText(result, terminal); }));
  return result.found() ? kSuccess : kInfeasible;
}

}  // namespace

Verb AddAdvise(CLI::App& program) {
  CLI::App* app = program.add_subcommand("advise", "Tell which measures make a training fit a GPU");
  const auto flags = std::make_shared<AdviseFlags>();
  AddCudaModelFlags(*app, flags->model);
  AddLayoutFlags(*app, flags->model.layout);
  app->add_option("--gpu", flags->gpu, "A name that `ebbtide gpus` lists, or a profile of your own (default a100-40gb)")
      ->type_name("NAME|FILE");
  AddTrainingFlags(*app, flags->training);
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files, ".html a page, .json, .txt");
  return {app, [flags] { return RunAdvise(*flags); }};
}

}  // namespace ebbtide::cli
