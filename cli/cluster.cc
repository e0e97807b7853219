// ebbtide cluster TRACE: placement policies on a trace of jobs.
#include "jobs/cluster.h"

#include <fmt/format.h>

#include <memory>

#include "cli/command_context.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "report/json/cluster.h"
#include "report/page/cluster_page.h"
#include "report/text/cluster.h"

namespace ebbtide::cli {
namespace {

struct ClusterFlags {
  jobs::ClusterRequest request;
  std::string fill, memory_error, time_error;
  OutputFlags output;
  std::vector<std::string> files;
};

// "10%" or "0.1".
Result<double> ParseShare(const char* flag, std::string text) {
  const bool percent = text.ends_with('%');
  if (percent) text.pop_back();
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return Fail("{}: expected a share, as 130% or 1.3", flag);
  return percent ? number / 100 : number;
}

std::vector<Face> FacesOf(const jobs::ClusterResult& result) {
  return {{".html", [&] { return report::ClusterPage(result); }},
          {".txt", [&] { return report::ClusterText(result, kTextFile); }},
          {".json", [&] { return report::Print(report::ClusterJson(result)); }}};
}

Result<int> RunCluster(const ClusterFlags& flags) {
  jobs::ClusterRequest request = flags.request;
  if (request.path.empty()) return Fail("expected a TRACE, a .csv of jobs");
  if (request.nodes.empty()) return Fail("expected --nodes, as --nodes 4x8xa100-40gb");
  EBB_RETURN_IF_ERROR(CheckFiles(flags.files, {".json", ".html", ".txt"}));
  if (!flags.fill.empty()) {
    EBB_ASSIGN_OR_RETURN(request.fill, ParseShare("--fill", flags.fill));
  }
  if (!flags.memory_error.empty()) {
    EBB_ASSIGN_OR_RETURN(request.memory_error, ParseShare("--memory-error", flags.memory_error));
  }
  if (!flags.time_error.empty()) {
    EBB_ASSIGN_OR_RETURN(request.time_error, ParseShare("--time-error", flags.time_error));
  }
  EBB_ASSIGN_OR_RETURN(const jobs::ClusterResult result, jobs::Cluster(request, CommandContext(flags.output).job()));
  EBB_RETURN_IF_ERROR(WriteFiles(flags.output, flags.files, FacesOf(result)));
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::ClusterJson(result),
                           [&](const report::Terminal& terminal) { return report::ClusterText(result, terminal); }));
  return kSuccess;
}

}  // namespace

Verb AddCluster(CLI::App& program) {
  CLI::App* app = program.add_subcommand("cluster", "Place a trace of jobs on a cluster's GPUs, by several policies");
  const auto flags = std::make_shared<ClusterFlags>();
  jobs::ClusterRequest& request = flags->request;
  app->add_option("TRACE", request.path, "A .csv[.gz] of jobs: our own form, that of CARMA's workloads, or of openb")
      ->type_name("");
  app->add_option("--nodes", request.nodes,
                  "Nodes, GPUs of each and the GPU: 4x8xa100-40gb, several with commas between; or a .csv[.gz] of "
                  "openb's nodes")
      ->type_name("NxNxNAME|FILE");
  app->add_option("--policy", request.policies,
                  "exclusive, mps, carma, best-fit, fgd or ebbtide; may be given several times (default: all)")
      ->type_name("PLACEMENT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--trace", request.trace,
                  "Of a file that holds several traces, the one of this name (default: the first)")
      ->type_name("NAME");
  app->add_option("--fill", flags->fill,
                  "Instead of a replay: draw jobs at random that never end, until they ask for this share of all GPUs")
      ->type_name("SHARE");
  app->add_option("--memory-error", flags->memory_error,
                  "Let jobs take up to this share more or less than is estimated (default 0%)")
      ->type_name("SHARE");
  app->add_option("--time-error", flags->time_error,
                  "Let the time of jobs alone be predicted wrongly by up to this share of it (default 0%)")
      ->type_name("SHARE");
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files, ".html a page with a Gantt chart, .json the object, .txt");
  return {app, [flags] { return RunCluster(*flags); }};
}

}  // namespace ebbtide::cli
