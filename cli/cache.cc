// ebbtide cache: what is kept from run to run, and where; with --clear, removes it.
#include "report/json/cache.h"

#include <memory>

#include "cli/output.h"
#include "cli/verb.h"
#include "jobs/cache.h"
#include "report/text/cache.h"

namespace ebbtide::cli {

Verb AddCache(CLI::App& program) {
  struct CacheFlags {
    OutputFlags output;
    jobs::CacheRequest request;
  };
  CLI::App* app = program.add_subcommand("cache", "Show what is kept from run to run, or remove it");
  const auto flags = std::make_shared<CacheFlags>();
  app->option_defaults()->group("Cache");
  app->add_option("--clear", flags->request.clear,
                  "Remove all that is made anew when needed, or KIND alone; may be given several times")
      ->type_name("all|KIND")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddOutputFlags(*app, flags->output);
  const auto run = [flags]() -> Result<int> {
    EBB_RETURN_IF_ERROR(CheckOutput(flags->output));
    EBB_ASSIGN_OR_RETURN(const jobs::CacheResult result, jobs::Cache(flags->request));
    EBB_RETURN_IF_ERROR(Emit(flags->output, report::CacheJson(result),
                             [&](const report::Terminal& terminal) { return report::CacheText(result, terminal); }));
    return kSuccess;
  };
  return {app, run};
}

}  // namespace ebbtide::cli
