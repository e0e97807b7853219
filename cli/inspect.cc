// ebbtide inspect MODEL: parameters, FLOPs, what is saved for backward, the largest tensors, ops by kind.
#include "jobs/inspect.h"

#include <fmt/format.h>

#include <memory>

#include "cli/command_context.h"
#include "cli/layout_flags.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "graph/json.h"
#include "report/json/inspect.h"
#include "report/text/inspect.h"

namespace ebbtide::cli {
namespace {

struct InspectFlags {
  ModelFlags model;
  OutputFlags output;
  std::string graph_out;
  std::string gpu;  // whose op times to model; empty: those that the graph brings
};

Status CheckFlags(const InspectFlags& flags) {
  EBB_RETURN_IF_ERROR(CheckOutput(flags.output));
  if (const std::string& path = flags.graph_out;
      !path.empty() && !path.ends_with(".json") && !path.ends_with(".json.gz")) {
    return Fail("--graph-out {}: expected a name that ends in .json or .json.gz", path);
  }
  return {};
}

Status WriteGraphOut(const InspectFlags& flags, const TrainingGraph& graph) {
  Remark(flags.output, fmt::format("{}: {} ops, {} tensors, {} storages", flags.model.model, graph.ops.size(),
                                   graph.tensors.size(), graph.storages.size()));
  if (flags.graph_out.empty()) return {};
  EBB_RETURN_IF_ERROR(WriteGraph(graph, flags.graph_out));
  Remark(flags.output, fmt::format("wrote {}", flags.graph_out));
  return {};
}

Result<int> RunInspect(const InspectFlags& flags) {
  jobs::InspectRequest request{.model = RequestOf(flags.model)};
  EBB_RETURN_IF_ERROR(jobs::CheckNamed(request.model));
  EBB_RETURN_IF_ERROR(CheckFlags(flags));
  if (!flags.gpu.empty()) {
    EBB_ASSIGN_OR_RETURN(request.gpu, FindProfile(flags.gpu));
  }
  EBB_ASSIGN_OR_RETURN(const jobs::InspectResult result, jobs::Inspect(request, CommandContext(flags.output).job()));
  EBB_RETURN_IF_ERROR(WriteGraphOut(flags, *result.graph));
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::InspectJson(result),
                           [&](const report::Terminal& terminal) { return report::InspectText(result, terminal); }));
  return kSuccess;
}

}  // namespace

Verb AddInspect(CLI::App& program) {
  CLI::App* app = program.add_subcommand("inspect", "Show what a training step of a model computes, saves and holds");
  const auto flags = std::make_shared<InspectFlags>();
  AddModelFlags(*app, flags->model);
  AddLayoutFlags(*app, flags->model.layout);
  AddOutputFlags(*app, flags->output);
  app->add_option("--graph-out", flags->graph_out,
                  "Also write the graph itself, a MODEL in its own right: .json or .json.gz")
      ->type_name("FILE");
  app->add_option("--gpu", flags->gpu, "Model the time of every op on this GPU: a name, or a profile file")
      ->type_name("NAME");
  return {app, [flags] { return RunInspect(*flags); }};
}

}  // namespace ebbtide::cli
