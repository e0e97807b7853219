// ebbtide simulate MODEL --plan FILE: replays a plan, after checking it op by op.
#include "jobs/simulate.h"

#include <fmt/format.h>

#include <memory>

#include "base/file.h"
#include "cli/command_context.h"
#include "cli/layout_flags.h"
#include "cli/output.h"
#include "cli/plan_flags.h"
#include "cli/training_flags.h"
#include "cli/verb.h"
#include "report/json/plan_trace.h"
#include "report/json/simulate.h"
#include "report/page/plan_page.h"
#include "report/text/plan.h"

namespace ebbtide::cli {
namespace {

struct Flags {
  ModelFlags model;
  PlanFlags plan;
  OutputFlags output;
  std::string file;
  std::vector<std::string> files;
  const CLI::Option* gpu = nullptr;
};

std::vector<Face> FacesOf(const jobs::SimulateResult& result) {
  return {{".html", [&] { return report::PlanPage(result.replayed); }},
          {".trace.json", [&] { return report::PlanTrace(result.replayed); }},
          {".json", [&] { return report::Print(report::SimulateJson(result)); }},
          {".txt", [&] { return report::SimulateText(result, kTextFile); }}};
}

Result<jobs::SimulateRequest> RequestOf(const Flags& flags) {
  jobs::SimulateRequest request;
  request.model = RequestOf(flags.model);
  request.plan_file = flags.file;
  if (flags.gpu->count() > 0) {
    EBB_ASSIGN_OR_RETURN(request.gpu, FindProfile(flags.plan.gpu));
  }
  EBB_ASSIGN_OR_RETURN(request.bandwidth, jobs::ParseLink(flags.plan.link));
  return request;
}

Result<int> RunSimulate(const Flags& flags) {
  if (flags.model.model.empty()) return Fail("expected a MODEL (see ebbtide models)");
  if (flags.file.empty()) return Fail("expected --plan FILE");
  EBB_RETURN_IF_ERROR(CheckFiles(flags.files, {".json", ".trace.json", ".html", ".txt"}));
  EBB_ASSIGN_OR_RETURN(const jobs::SimulateRequest request, RequestOf(flags));
  EBB_ASSIGN_OR_RETURN(const jobs::SimulateResult result, jobs::Simulate(request, CommandContext(flags.output).job()));
  EBB_RETURN_IF_ERROR(WriteFiles(flags.output, flags.files, FacesOf(result)));
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::SimulateJson(result),
                           [&](const report::Terminal& terminal) { return report::SimulateText(result, terminal); }));
  return kSuccess;
}

}  // namespace

Verb AddSimulate(CLI::App& program) {
  CLI::App* app = program.add_subcommand("simulate", "Check a plan and run it in the simulator");
  const auto flags = std::make_shared<Flags>();
  AddCudaModelFlags(*app, flags->model);
  AddLayoutFlags(*app, flags->model.layout);
  app->add_option("--plan", flags->file, "What `ebbtide plan -o` wrote")->type_name("FILE");
  AddGpuFlags(*app, flags->plan);
  flags->gpu = app->get_option("--gpu");
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files,
               ".json the object, .html a page with the timeline, .trace.json the timeline for Perfetto, .txt");
  return {app, [flags] { return RunSimulate(*flags); }};
}

}  // namespace ebbtide::cli
