// ebbtide explain SNAPSHOT.pickle | LOG: why a training ran out of memory.
#include "jobs/explain.h"

#include <memory>

#include "cli/command_context.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "report/json/explain.h"
#include "report/page/result_page.h"
#include "report/text/explain.h"

namespace ebbtide::cli {
namespace {

struct ExplainFlags {
  jobs::ExplainRequest request;
  std::vector<std::string> files;
  OutputFlags output;
};

Result<int> RunExplain(const ExplainFlags& flags) {
  if (flags.request.path.empty()) return Fail("expected a SNAPSHOT.pickle or a LOG");
  EBB_RETURN_IF_ERROR(CheckFiles(flags.files, {".html", ".json", ".txt"}));
  EBB_ASSIGN_OR_RETURN(const jobs::ExplainResult result,
                       jobs::Explain(flags.request, CommandContext(flags.output).job()));
  const report::Json json = report::ExplainJson(result);
  EBB_ASSIGN_OR_RETURN(const std::string page, report::ResultPage(json));
  EBB_RETURN_IF_ERROR(WriteFiles(flags.output, flags.files,
                                 {{".html", [&] { return page; }},
                                  {".json", [&] { return report::Print(json); }},
                                  {".txt", [&] { return report::ExplainText(result, kTextFile); }}}));
  EBB_RETURN_IF_ERROR(Emit(flags.output, json,
                           [&](const report::Terminal& terminal) { return report::ExplainText(result, terminal); }));
  return kSuccess;  // the question was why, and that is answered
}

}  // namespace

Verb AddExplain(CLI::App& program) {
  CLI::App* app = program.add_subcommand("explain", "Say why a training ran out of memory, and what would have fitted");
  const auto flags = std::make_shared<ExplainFlags>();
  app->add_option("FILE", flags->request.path,
                  "A torch memory snapshot (a pickle, of which nothing is executed), or a log with the text of an "
                  "OutOfMemoryError")
      ->type_name("");
  app->option_defaults()->group("Snapshot");
  app->add_option("--device", flags->request.device, "Of a snapshot of several (default: the first with a history)")
      ->type_name("N")
      ->check(Check(CheckNotNegative));
  app->add_option("--largest", flags->request.largest, "How many holders to list (default 10)")
      ->type_name("N")
      ->check(Check(CheckPositive));
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files, ".html a page, .json, .txt");
  return {app, [flags] { return RunExplain(*flags); }};
}

}  // namespace ebbtide::cli
